//go:build !linux

package clock

// bootTime returns false: here only the wall clock shows a sleep.
func bootTime() (ns int64, ok bool) { return 0, false }
