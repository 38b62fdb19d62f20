package judge

import (
	"time"

	"golang.org/x/sys/unix"
)

// MachineNow reads a clock that all processes of the machine share and that nobody can set.
func MachineNow() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // this clock always exists
	return time.Duration(now.Nano())
}
