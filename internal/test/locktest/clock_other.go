//go:build !linux

package locktest

import "time"

// machineNow stands in for a clock that only child processes need, which are started on Linux only.
func machineNow() time.Duration { return time.Duration(time.Now().UnixNano()) }
