// Package suspend tests what becomes of holds while the machine of their process is asleep, and is nothing but tests. The
// monotonic clock stands still during a sleep, and the server's time does not.
package suspend
