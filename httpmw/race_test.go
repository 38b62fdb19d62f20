//go:build race

package httpmw_test

func init() { raceDetector = true }
