// Package migration tests package bridge with the libraries from which it moves. Processes of the old code, of bridges and of
// lockmw alone compete for locks, and are killed and paused, and so is the server. Redisson has no Go library: its scripts stand
// for it.
package migration
