//go:build !race

// Package race says whether the tests run under the race detector, which allocates and makes everything
// several times slower.
package race

// Enabled says that the race detector is there.
const Enabled = false
