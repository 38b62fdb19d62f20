package judge

import (
	"time"

	"golang.org/x/sys/unix"
)

// MachineNow reads the clock that the processes of one machine share and that nobody sets.
func MachineNow() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it always exists
	return time.Duration(now.Nano())
}
