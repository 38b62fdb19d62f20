// Package suspend tests holds while the machine of their process sleeps, and contains only tests. The monotonic clock stands
// still during a sleep; the server's time does not.
package suspend
