//go:build !race

package locktest

const underRace = false
