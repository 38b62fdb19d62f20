// Package permit contains the scenarios of semaphores with several permits and with weights.
package permit

import (
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/semaphore"
)

// Groups are the scenarios. They make their own semaphores over the Clients under test.
var Groups = []env.Group{{Name: "permits", Scenarios: []env.Scenario{
	env.Case("held permits never exceed n, and each has its own slots", neverMore, env.Permits|env.OnServer|env.Shares|env.Sample),
	env.Case("with different values of n, each grant obeys its own", neverMoreInRollOut, env.Permits|env.OnServer|env.Shares|env.Sample),
	env.Case("a disconnected holder loses only its own permit", lostAlone, env.Permits|env.OnServer|env.InBubble|env.Sample),
	env.Case("a killed process loses only its own permit", killedAlone, env.Permits|env.InRealTime|env.OneNode|env.Shares|env.Sample),
	env.Case("an operator releases one permit", forcedAlone, env.Permits|env.OnServer|env.Shares|env.Sample),
	env.Case("a nested call shares the permit but gets no greater weight", nested, env.Permits|env.OnServer|env.Shares|env.Sample),
	env.Case("locks and semaphores of the same key refuse each other", kindsRefuse, env.Permits|env.OnServer|env.Shares|env.Sample),
	env.Case("a maximum hold and a fixed lease end only their own permit", limitedHolds, env.Permits|env.OnServer|env.InBubble|env.Sample),
	env.Case("a grant of many slots arrives by a poll", manySlots, env.Permits|env.OnServer|env.Shares|env.Sample),
	env.Case("an Inspector shows permits and waiters", shown, env.Permits|env.OnServer|env.Shares|env.Sample),
}}}

func over(c *env.Client, n int, opts ...lockmw.Option) *semaphore.Locker {
	return semaphore.New(c.Redis, n, opts...)
}
