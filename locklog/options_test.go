package locklog_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/locklog"
	"github.com/lockmw/go/lockmw"
)

func TestInvalidOptionsPanic(t *testing.T) {
	for want, opts := range map[string][]locklog.Option{
		"option 2 is nil":              {locklog.WithSlowWait(0), nil},
		"WithSlowWait(-1ns): negative": {locklog.WithSlowWait(-1)},
		"WithLongHold(-1s): negative":  {locklog.WithLongHold(-time.Second)},
		"WithKeyRedactor(nil)":         {locklog.WithKeyRedactor(nil)},
	} {
		t.Run(want, func(t *testing.T) {
			usertest.WantPanic(t, "locklog: New: "+want, "", func() { locklog.New(nil, opts...) })
		})
	}
}

func TestTheLaterOptionWins(t *testing.T) {
	j := newJournal(t, locklog.WithLongHold(lockmw.Forever), locklog.WithLongHold(0))
	_, hold := usertest.Lock(t, t.Context(), j.local(), "item:7")
	usertest.Unlock(t, hold)
	j.messages(longHold)
}

func TestWithoutALoggerLinesGoToTheDefaultOne(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	local := lockmw.NewLocal(lockmw.WithObserver(locklog.New(nil, locklog.WithLongHold(0))))
	_, hold := usertest.Lock(t, t.Context(), local, "item:7")
	var text bytes.Buffer
	slog.SetDefault(slog.New(slog.NewJSONHandler(&text, nil))) // later than New, and during the hold
	usertest.Unlock(t, hold)
	if lines := parse(t, text.String()); len(lines) != 1 || lines[0].message() != longHold {
		t.Errorf("logged %s", &text)
	}
}

// Lines for which a logger is not enabled are not built.
func TestLevels(t *testing.T) {
	for level, want := range map[slog.Level]int{
		slog.LevelInfo: 5, slog.LevelWarn: 5, slog.LevelError: 1, slog.LevelError + 1: 0,
	} {
		t.Run(level.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var built atomic.Int32
				j := newJournalAt(t, level, locklog.WithKeyRedactor(func(string) string { built.Add(1); return "" }))
				local := j.local()
				_, hold := usertest.Lock(t, t.Context(), local, "item:7")
				time.AfterFunc(10*time.Second+1, func() { usertest.Unlock(t, hold) })
				ctx, _ := usertest.Lock(t, t.Context(), local, "item:7", lockmw.WithMaxHold(time.Second))
				lost(ctx)
				if got := len(j.lines()); got != want || int(built.Load()) != want {
					t.Errorf("%d lines, %d built, want %d:\n%s", got, built.Load(), want, j)
				}
			})
		})
	}
}

// A level that changes in the middle of an attempt.
func TestLevelsThatChange(t *testing.T) {
	for _, tt := range []struct {
		before, after slog.Level
		want          int
	}{
		{slog.LevelError + 1, slog.LevelInfo, 0},
		{slog.LevelError, slog.LevelInfo, 1},
		{slog.LevelInfo, slog.LevelError, 0},
	} {
		var level slog.LevelVar
		level.Set(tt.before)
		j := newJournalAt(t, &level, locklog.WithLongHold(0))
		_, hold := usertest.Lock(t, t.Context(), j.local(), "item:7")
		level.Set(tt.after)
		usertest.Unlock(t, hold)
		if got := len(j.lines()); got != tt.want {
			t.Errorf("from %v to %v: %d lines, want %d", tt.before, tt.after, got, tt.want)
		}
	}
}

// An inner attempt that is not logged must not be taken for the one around it.
func TestALevelThatChangesBetweenNestedLocks(t *testing.T) {
	var level slog.LevelVar
	j := newJournalAt(t, &level, locklog.WithLongHold(0))
	local := j.local()
	ctx, outer := usertest.Lock(t, t.Context(), local, "outer:1")
	level.Set(slog.LevelError + 1)
	_, inner := usertest.Lock(t, ctx, local, "inner:1")
	level.Set(slog.LevelInfo)
	usertest.Unlock(t, inner)
	j.messages()
	usertest.Unlock(t, outer)
	j.messages(longHold)[0].want(t, line{"lock.key": "outer:1"})
}

type valueKey struct{}

// A ctxHandler adds a value of the context, as those that add trace ids do.
type ctxHandler struct{ slog.Handler }

func (h ctxHandler) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.Any("request", ctx.Value(valueKey{})))
	return h.Handler.Handle(ctx, r)
}

func TestHandlersGetTheContextOfTheAttempt(t *testing.T) {
	var text bytes.Buffer
	logger := slog.New(ctxHandler{slog.NewJSONHandler(&text, nil)})
	local := lockmw.NewLocal(lockmw.WithObserver(locklog.New(logger, locklog.WithSlowWait(0), locklog.WithLongHold(0))))
	// Another observer's context, of whatever place, is there too.
	other := lockmw.WithObserver(&lockmw.Observer{
		Start: func(ctx context.Context, a lockmw.Attempt) context.Context {
			return context.WithValue(ctx, valueKey{}, ctx.Value(valueKey{}).(string)+"/wait")
		},
		Acquired: func(ctx context.Context, a lockmw.Attempt, g lockmw.Acquisition) context.Context {
			return context.WithValue(ctx, valueKey{}, ctx.Value(valueKey{}).(string)+"/hold")
		},
	})
	ctx, hold := usertest.Lock(t, context.WithValue(t.Context(), valueKey{}, "r1"), local, "item:7", other)
	if got := ctx.Value(valueKey{}); got != "r1/wait/hold" {
		t.Errorf("the hold's context has %v", got)
	}
	usertest.Unlock(t, hold)
	lines := parse(t, text.String())
	if len(lines) != 2 || lines[0]["request"] != "r1/wait" || lines[1]["request"] != "r1/wait/hold" {
		t.Errorf("logged %s", &text)
	}
}

const (
	valid      = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	validTrace = "0af7651916cd43dd8448eb211c80319c"
)

// traceOf returns the trace id that a line shows of a holder of whom nothing else is known.
func traceOf(t *testing.T, traceParent string) any {
	t.Helper()
	j := newJournal(t, locklog.WithSlowWait(0))
	s := newScript(j.observer)
	s.Contended(lockmw.Contention{Holders: []lockmw.Holder{{TraceParent: traceParent}}})
	s.Acquired(lockmw.Acquisition{})
	l := j.messages(slowWait)[0]
	l.want(t, line{
		"lock.holders": 1, "holder.owner": nil, "holder.process": nil, "holder.token": nil, "holder.since": nil,
	})
	return l["holder.trace_id"]
}

func TestTheTraceOfTheHolderIsNamed(t *testing.T) {
	for p, want := range map[string]any{
		valid: validTrace, valid[:54] + "0": validTrace, valid[:53] + "ff": validTrace, "": nil, "garbage": nil,
	} {
		if got := traceOf(t, p); got != want {
			t.Errorf("%q: holder.trace_id is %v, want %v", p, got, want)
		}
	}
}
