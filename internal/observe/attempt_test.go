package observe_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

type attempt struct {
	observe.Attempt[observer, attempt]
}

type observer struct{ _ int }

func (o *observer) begin(ctx context.Context, key string) *attempt {
	a := &attempt{}
	a.Init(ctx, o, a, key)
	return a
}

func TestAnObserverFindsItsInnermostAttempt(t *testing.T) {
	mine, other := &observer{}, &observer{}
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "value")
	if a := observe.In[attempt](ctx, mine); a != nil {
		t.Errorf("found %v where there is none", a)
	}
	outer := mine.begin(ctx, "item:7")
	inner := mine.begin(context.WithValue(outer, key{}, "inner"), "item:8")
	foreign := other.begin(inner, "item:9")
	for _, tt := range []struct {
		ctx  context.Context
		want *attempt
	}{
		{outer, outer}, {inner, inner}, {foreign, inner}, {context.WithoutCancel(foreign), inner},
	} {
		if got := observe.In[attempt](tt.ctx, mine); got != tt.want {
			t.Errorf("found %p, want %p", got, tt.want)
		}
	}
	if got := observe.In[attempt](foreign, other); got != foreign {
		t.Errorf("the other observer found %p, want %p", got, foreign)
	}
	if outer.Value(key{}) != "value" || foreign.Value(key{}) != "inner" {
		t.Error("values of the caller's context are not found")
	}
}

// The attempts of the later keys of a LockAll start when all are answered, and have waited from the start of the call.
func TestAHoldLastsFromItsGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := new(observer).begin(t.Context(), "item:7")
		a.Acquire(&lockmw.Acquisition{Waited: 3 * time.Second})
		time.Sleep(time.Second)
		if held := a.Held(); held != time.Second || a.Waited != 3*time.Second {
			t.Errorf("held for %v after a wait of %v", held, a.Waited)
		}
	})
}

func TestAnAttemptGoesThroughItsPhases(t *testing.T) {
	a := new(observer).begin(t.Context(), "item:7")
	if !a.Is(observe.Waiting) || !a.Awaits("item:7") || a.Awaits("item:8") {
		t.Error("it does not wait for its lock at first")
	}
	if a.End() {
		t.Error("a hold ended that has not begun")
	}
	if a.Enter(observe.Holding); !a.Is(observe.Holding) || a.Awaits("item:7") {
		t.Error("it does not hold")
	}
	if !a.End() || a.End() || !a.Is(observe.Over) {
		t.Error("the hold does not end once")
	}
}

func TestAnAttemptIsPrintedByItsType(t *testing.T) {
	ctx, cancel := context.WithCancel(new(observer).begin(t.Context(), "item:secret"))
	defer cancel()
	if got := fmt.Sprint(ctx); !strings.Contains(got, "observe_test.attempt") || strings.Contains(got, "secret") {
		t.Errorf("printed as %s", got)
	}
}
