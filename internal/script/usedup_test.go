package script_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
)

func TestACounterThatMakesNoTokenSaysWhy(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		fence := d.Keys.Fence()
		for value, want := range map[string]string{
			"9007199254740991": "WRONGTYPE the fencing counter " + fence + " is used up at 2^53 - 1: when no lock is held, delete it, and reset the tokens that are stored with your data",
			"9007199254740992": "WRONGTYPE " + fence + " is not a fencing counter, which is a number below 2^53: choose another prefix, or delete it",
			"theirs":           "WRONGTYPE " + fence + " is not a fencing counter, which is a number below 2^53: choose another prefix, or delete it",
		} {
			if err := d.Redis.Set(d.Context(), fence, value, 0).Err(); err != nil {
				d.Fatal(err)
			}
			for _, try := range []bool{false, true} {
				_, err := d.AcquireOnce(scripttest.Acquire{ID: "a", Try: try})
				if err == nil || !strings.Contains(err.Error(), want) {
					d.Errorf("%s, try: %t: %v, want %q", value, try, err, want)
				}
			}
			if _, err := d.AcquirePermitOnce(scripttest.Permit{ID: "b", N: 1}); err == nil || !strings.Contains(err.Error(), want) {
				d.Errorf("%s, a permit: %v, want %q", value, err, want)
			}
			all := locks{d}.acquires("c")
			all.Locks = all.Locks[:1]
			v := scripttest.Acquire{ID: "d", Try: true}.Operation(d)
			v.Vote = &core.Vote{Tokens: 1}
			_, err := script.AcquireAllAnswer(d.Send(all), 1)
			_, vote := script.AcquireAnswer(d.Send(v), "")
			tokens, _, votes := voteBatch(d, "1", voteRun{d.Key, 1, "", 0})
			if votes == nil && tokens[0] == -1 {
				votes = vote // it is left to acquire.lua
			}
			for what, err := range map[string]error{"several locks": err, "a vote": vote, "a batch of votes": votes} {
				if err == nil || !strings.Contains(err.Error(), want) {
					d.Errorf("%s, %s: %v, want %q", value, what, err, want)
				}
			}
			if got := d.Redis.Get(d.Context(), fence).Val(); got != value {
				d.Errorf("the counter was %s, and is %s", value, got)
			}
		}
		// The way out.
		if err := d.Redis.Del(d.Context(), fence).Err(); err != nil {
			d.Fatal(err)
		}
		d.Lock("a")
	})
}

func TestAClockThatMakesNoTokenIsNamed(t *testing.T) {
	s := redistest.Mini(t)
	d := scripttest.New(t, s.NewClient(t), t.Name())
	s.Mini.SetTime(time.UnixMicro(1<<53 - 1))
	d.Lock("a")
	d.Release("a")
	s.Mini.SetTime(time.UnixMicro(1 << 53))
	_, err := d.AcquireOnce(scripttest.Acquire{ID: "b", Try: true})
	if err == nil || !strings.Contains(err.Error(), "its clock is past the year 2255") {
		t.Errorf("%v, counter %s, %v", err, d.Redis.Get(t.Context(), d.Keys.Fence()).Val(), d.Redis.Time(t.Context()).Val().UnixMicro())
	}
}
