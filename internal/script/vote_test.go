package script_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// tokensAhead is how far ahead of the clock a token may be in these tests. They would pass a second.
const tokensAhead = time.Minute

func giveTokensAhead(p *script.Params) { p.MaxTokenAhead = tokensAhead }

// aheadOfClock returns a token that may be given.
func aheadOfClock() int64 { return time.Now().Add(tokensAhead * 5 / 6).UnixMicro() }

// vote sends an acquire for a lock over several nodes.
func vote(d *scripttest.Driver, id string, v core.Vote, queued int) script.Acquired {
	d.Helper()
	stem := script.IDStem(id + ".")
	got, err := script.AcquireAnswer(d.Send(&script.Acquire{
		Keys: d.Keys, ID: stem.New(1), Lease: scripttest.Lease, Info: script.HolderInfo{Owner: "owner-" + id}, Mode: core.Exclusive,
		Inbox: d.Inbox(id), Tokens: v.Tokens, QueueTokens: queued, Vote: &v,
	}), "lockmw:inbox:")
	if err != nil {
		d.Fatal(err)
	}
	return got
}

func TestANodeGivesTheTokenThatIsProposed(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Change(giveTokensAhead)
		soon := aheadOfClock()
		for range 2 { // as a copy
			got := vote(d, "a", core.Vote{Token: soon, Tokens: 10}, 0)
			if got.Outcome != script.Held || got.Grant.Token != soon || got.Grant.Tokens != 10 {
				d.Errorf("%+v, want tokens from %d", got, soon)
			}
		}
		if last, _ := d.Look().Counter(); last != soon+9 {
			d.Errorf("the counter is %d, want %d", last, soon+9)
		}
	})
}

func TestANodeGivesNoTokenThatIsOldOrFarAhead(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		before := time.Now().UnixMicro()
		for _, proposed := range []int64{0, 1, time.Now().Add(time.Minute).UnixMicro()} {
			got := vote(d, "a", core.Vote{Token: proposed, Tokens: 1}, 0)
			if g := got.Grant.Token; g == proposed || g <= before || g > time.Now().Add(10*time.Second).UnixMicro() {
				d.Errorf("proposed %d, given %d", proposed, g)
			}
			before = got.Grant.Token
			d.Redis.Del(d.Context(), d.Keys.Holder())
		}
		if got := vote(d, "b", core.Vote{Token: before, Tokens: 1}, 0); got.Grant.Token <= before {
			d.Errorf("token %d was given again", before)
		}
	})
}

func TestANodeGivesFewTokensAheadOfItsClock(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Change(giveTokensAhead)
		soon := aheadOfClock()
		got := vote(d, "a", core.Vote{Token: soon, Tokens: 1e8}, 0)
		if end := got.Grant.Token + got.Grant.Tokens; got.Grant.Token != soon || end > time.Now().Add(tokensAhead).UnixMicro() {
			d.Errorf("%+v, want tokens from %d on, none of them %v ahead", got.Grant, soon, tokensAhead)
		}
		d.Redis.Del(d.Context(), d.Keys.Holder())
		late := time.Now().Add(time.Hour).UnixMicro()
		d.Redis.Set(d.Context(), d.Keys.Fence(), late, 0)
		if got := vote(d, "b", core.Vote{Tokens: 10}, 0); got.Grant.Token != late+1 || got.Grant.Tokens != 1 {
			d.Errorf("%+v, want token %d alone", got.Grant, late+1)
		}
	})
}

func TestARefusedTryTellsTheHolderThatSomebodyWaits(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		wanted := func() bool { return d.Redis.HGet(d.Context(), d.Keys.Holder(), "wanted").Val() == "1" }
		vote(d, "a", core.Vote{Tokens: 2}, 0)
		if got := vote(d, "b", core.Vote{Tokens: 1}, 0); got.Outcome != script.Queued || wanted() {
			d.Errorf("a try whose process does not wait: %+v, wanted %t", got, wanted())
		}
		if got := vote(d, "b", core.Vote{Tokens: 1, NotifyHolder: true}, 0); got.Outcome != script.Queued || !wanted() {
			d.Errorf("a try whose process waits: %+v, wanted %t", got, wanted())
		}
		if n := d.Redis.Exists(d.Context(), d.Keys.Queue()).Val(); n != 0 {
			d.Error("it is queued")
		}
		d.Redis.Del(d.Context(), d.Keys.Holder())
	})
}

func TestACounterIsRaisedThoughTheClockIsAhead(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		token := time.Now().Add(-time.Second).UnixMicro()
		if _, err := script.RaiseAnswer(d.Send(&script.Raise{Keys: d.Keys, Token: token, Always: true}), token); err != nil {
			d.Fatal(err)
		}
		if last, _ := d.Look().Counter(); last != token {
			d.Errorf("the counter is %d, want %d", last, token)
		}
	})
}
