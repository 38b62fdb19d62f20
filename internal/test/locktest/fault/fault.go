// Package fault contains the scenarios in which connections, processes and servers fail.
package fault

import "github.com/lockmw/go/internal/test/locktest/env"

// Groups are the scenarios, by subject.
var Groups = []env.Group{
	{Name: "flood", Scenarios: flood},
	{Name: "lost reply", Scenarios: lostReplies},
	{Name: "silence", Scenarios: silence},
	{Name: "connections", Scenarios: connections},
	{Name: "half-open", Scenarios: halfOpen},
	{Name: "killed process", Scenarios: killedProcesses},
	{Name: "stopped process", Scenarios: stoppedProcesses},
	{Name: "stopped server", Scenarios: stoppedServer},
	{Name: "restarted server", Scenarios: restartedServer},
	{Name: "flush", Scenarios: flushes},
	{Name: "memory", Scenarios: fullMemory},
	{Name: "refusal", Scenarios: refusals},
	{Name: "passing refusal", Scenarios: passingRefusals},
	{Name: "lasting refusal", Scenarios: lastingRefusals},
	{Name: "stepped clock", Scenarios: steppedClock},
	{Name: "linearizability", Scenarios: linearizability},
}
