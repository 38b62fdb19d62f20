package clock

import (
	"syscall"
	"unsafe"
)

// bootClock is CLOCK_BOOTTIME: the monotonic clock plus the time that the machine was asleep.
const bootClock = 7

// bootTime returns the time since the machine was started, in ns, including sleep. It returns false if the system does not
// provide it.
func bootTime() (ns int64, ok bool) {
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, bootClock, uintptr(unsafe.Pointer(&t)), 0) //nolint:gosec // the standard library has no call for this clock
	return t.Nano(), errno == 0
}
