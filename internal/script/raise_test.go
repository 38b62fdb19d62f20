package script_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

func raise(d *scripttest.Driver, token int64) (behind time.Duration) {
	d.Helper()
	behind, err := script.RaiseAnswer(d.Send(&script.Raise{Keys: d.Keys, Token: token}), token)
	if err != nil {
		d.Error(err)
	}
	return behind
}

func TestARaisedCounterGivesGreaterTokens(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		ahead := time.Now().Add(30 * time.Second).UnixMicro()
		for range 2 { // harmless when repeated
			if behind := raise(d, ahead); behind != 0 {
				d.Errorf("%v behind", behind)
			}
		}
		got := d.Lock("a1")
		if got.Grant.Token != ahead+1 {
			d.Errorf("token %d, want %d", got.Grant.Token, ahead+1)
		}
		raise(d, ahead) // as a late copy
		raise(d, 1)
		if last, _ := d.Look().Counter(); last != ahead+1 {
			d.Errorf("the counter went from %d to %d", ahead+1, last)
		}
	})
}

func TestATokenFarAheadOfTheClockRaisesNothing(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		behind := raise(d, time.Now().Add(2*time.Minute).UnixMicro())
		if behind < time.Minute || behind > 2*time.Minute+scripttest.Blur {
			d.Errorf("%v behind", behind)
		}
		if d.Look().Fence.Exists() {
			d.Error("the counter was written")
		}
	})
}

func TestATokenBehindTheClockNeedsNoWrite(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		if raise(d, time.Now().Add(-time.Second).UnixMicro()) != 0 || d.Look().Fence.Exists() {
			d.Errorf("%v", d.Look())
		}
	})
}

func TestACounterOfSomebodyElseIsNotRaised(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Redis.Set(d.Context(), d.Keys.Fence(), "a word", 0)
		token := time.Now().Add(30 * time.Second).UnixMicro()
		if _, err := script.RaiseAnswer(d.Send(&script.Raise{Keys: d.Keys, Token: token}), token); err == nil {
			d.Error("no error")
		}
		if got := d.Redis.Get(d.Context(), d.Keys.Fence()).Val(); got != "a word" {
			d.Errorf("it is %q", got)
		}
	})
}
