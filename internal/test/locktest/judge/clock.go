package judge

import (
	"time"
)

// machineEpoch is the machine's clock at the zero of this process' own, startTime.
var startTime, machineEpoch = clocks()

// clocks reads both clocks in the same instant: of several tries the one that took the shortest.
func clocks() (own time.Time, machine time.Duration) {
	best := time.Duration(-1)
	for range 10 {
		before := MachineNow()
		now := time.Now()
		took := MachineNow() - before
		if best < 0 || took < best {
			best, own, machine = took, now, before+took/2
		}
	}
	return own, machine
}

// MachineTime is t by the clock that all processes of this machine share, so that what children
// report can be compared. t must have come from time.Now in this process.
func MachineTime(t time.Time) time.Duration { return machineEpoch + t.Sub(startTime) }

// OwnTime is the reverse of MachineTime: this process' time when that clock shows t.
func OwnTime(t time.Duration) time.Time { return startTime.Add(t - machineEpoch) }
