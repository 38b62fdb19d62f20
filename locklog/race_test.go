//go:build race

package locklog_test

func init() { raceDetector = true }
