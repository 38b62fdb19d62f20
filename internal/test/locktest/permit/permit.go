// Package permit has the scenarios of semaphores with more than one permit, and weights.
package permit

import (
	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/semaphore"
)

// Groups are the scenarios. They make semaphores of their own over the Clients of the one that is tested.
var Groups = []env.Group{{Name: "permits", Scenarios: []env.Scenario{
	env.Case("no more are held than there are, each with slots of its own", neverMore, env.Permits|env.OnServer|env.Shares|env.Sample),
	env.Case("with several n at a time each grant goes by its own", neverMoreInRollOut, env.Permits|env.OnServer|env.Shares|env.Sample),
	env.Case("a holder that is cut off loses its permit alone", lostAlone, env.Permits|env.OnServer|env.InBubble|env.Sample),
	env.Case("a process that is killed loses its permit alone", killedAlone, env.Permits|env.InRealTime|env.OneNode|env.Shares|env.Sample),
	env.Case("an operator takes away one permit", forcedAlone, env.Permits|env.OnServer|env.Shares|env.Sample),
	env.Case("a nested call shares the permit, and gets no heavier one", nested, env.Permits|env.OnServer|env.Shares|env.Sample),
	env.Case("locks and semaphores of one key refuse each other", kindsRefuse, env.Permits|env.OnServer|env.Shares|env.Sample),
	env.Case("a maximum hold and a fixed lease end one permit", limitedHolds, env.Permits|env.OnServer|env.InBubble|env.Sample),
	env.Case("many slots come with a poll", manySlots, env.Permits|env.OnServer|env.Shares|env.Sample),
	env.Case("an Inspector shows permits and who waits", shown, env.Permits|env.OnServer|env.Shares|env.Sample),
}}}

func over(c *env.Client, n int, opts ...lockmw.Option) *semaphore.Locker {
	return semaphore.New(c.Redis, n, opts...)
}
