//go:build race

package protocol

// Nothing here runs at the same time, and the race detector makes it ten times slower.
func init() { underRace = true }
