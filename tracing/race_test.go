//go:build race

package tracing_test

func init() { raceDetector = true }
