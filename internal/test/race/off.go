//go:build !race

package race

// Enabled says that the race detector is there.
const Enabled = false
