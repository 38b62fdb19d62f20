package consume_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/consume"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

var (
	errStock = errors.New("no stock")
	itself   = lockmw.By("order", func(m string) string { return m[:1] }) // a1 and a2 have one key
)

// A journal notes events in their order.
type journal struct {
	mu     sync.Mutex
	events []string
}

func (j *journal) add(event ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, strings.TrimSpace(fmt.Sprintln(event...)))
}

func (j *journal) done(m string) { j.add("done", m) }

func (j *journal) want(t *testing.T, events ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.events, events) {
		t.Errorf("events:\n%s\nwant:\n%s", strings.Join(j.events, "\n"), strings.Join(events, "\n"))
	}
}

func submit(t *testing.T, p *consume.Partition[string], messages ...string) {
	t.Helper()
	for _, m := range messages {
		if err := p.Submit(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

func now() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestAFailedMessageIsNotOvertakenByItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		failures := 2
		p := consume.New(quiet{lockmw.NewLocal()}, itself, func(_ context.Context, m string) error {
			j.add(m)
			if m == "a1" && failures > 0 {
				failures--
				return errStock
			}
			return nil
		}, nil).Open(j.done)
		submit(t, p, "a1")
		synctest.Wait()
		submit(t, p, "a2", "b1")
		time.Sleep(time.Second)
		j.want(t, "a1", "b1", "done b1", "a1", "a1", "done a1", "a2", "done a2")
		if left := p.Close(now()); len(left) > 0 {
			t.Error(left)
		}
	})
}

func TestCommitsAreContiguous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		p := consume.New(quiet{lockmw.NewLocal()}, itself, func(_ context.Context, m string) error {
			if m == "a1" {
				time.Sleep(time.Second)
			}
			j.add(m)
			return nil
		}, nil).OpenInOrder(j.done)
		submit(t, p, "a1")
		synctest.Wait()
		submit(t, p, "b1")
		time.Sleep(2 * time.Second)
		j.want(t, "b1", "a1", "done a1", "done b1")
		p.Close(now())
	})
}

func TestGiveUpDecidesAboutFailedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		broken := errors.New("unparsable")
		key := func(ctx context.Context, m string) (string, error) {
			switch m {
			case "missing":
				return "", nil
			case "long":
				return lockmw.Key("order", strings.Repeat("x", 2048)), nil
			case "unparsable":
				return "", broken
			}
			return itself(ctx, m)
		}
		p := consume.New(quiet{lockmw.NewLocal()}, key, func(_ context.Context, m string) error {
			if m == "panics" {
				panic("nil map")
			}
			return errStock
		}, func(ctx context.Context, m string, attempt int, err error) error {
			if _, held := lockmw.FromContext(ctx); held || ctx.Err() != nil {
				t.Error(held, ctx.Err())
			}
			reason := "other"
			for _, known := range []error{lockmw.ErrInvalidKey, broken, errStock, consume.ErrPanic} {
				if errors.Is(err, known) {
					reason = known.Error()
				}
			}
			j.add(m, attempt, reason)
			if attempt < 2 && reason == errStock.Error() {
				return err
			}
			return nil
		}).Open(j.done)
		for _, m := range []string{"missing", "long", "unparsable", "panics", "fails"} {
			submit(t, p, m)
			time.Sleep(time.Second)
		}
		invalid := lockmw.ErrInvalidKey.Error()
		j.want(t, "missing 1 "+invalid, "done missing", "long 1 "+invalid, "done long", "unparsable 1 unparsable", "done unparsable",
			"panics 1 "+consume.ErrPanic.Error(), "done panics", "fails 1 no stock", "fails 2 no stock", "done fails")
		p.Close(now())
	})
}

func TestAMessageWithoutItsLockHasNotFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		local, refusals := lockmw.NewLocal(), 5
		locks := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
			if refusals > 0 {
				refusals--
				return ctx, nil, &lockmw.Error{Op: "lock", Err: lockmw.ErrUnavailable}
			}
			return local.Lock(ctx, key, opts...)
		})
		p := consume.New(quiet{locks}, itself, func(_ context.Context, m string) error { j.add(m); return nil },
			func(_ context.Context, m string, _ int, err error) error { j.add("gave up", m, err); return nil }).Open(j.done)
		submit(t, p, "a1", "a2")
		time.Sleep(time.Minute)
		j.want(t, "a1", "done a1", "a2", "done a2")
		p.Close(now())
	})
}

// A Locker may refuse more keys than this package does.
func TestAKeyThatTheLockerRefusesIsAFailure(t *testing.T) {
	asked := make(chan error, 1)
	locks := lockmw.LockerFunc(func(ctx context.Context, _ string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return ctx, nil, &lockmw.Error{Op: "lock", Err: lockmw.ErrInvalidKey}
	})
	p := consume.New(quiet{locks}, itself, func(context.Context, string) error { return nil },
		func(_ context.Context, _ string, _ int, err error) error { asked <- err; return nil }).Open(func(string) {})
	submit(t, p, "a1")
	if err := usertest.Receive(t, "GiveUp is asked", asked); !errors.Is(err, lockmw.ErrInvalidKey) {
		t.Error(err)
	}
	p.Close(t.Context())
}

func TestALostLockEndsTheHandlerAndFailsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		p := consume.New(quiet{lockmw.NewLocal()}, itself, func(ctx context.Context, m string) error {
			<-ctx.Done()
			j.add(m, errors.Is(context.Cause(ctx), lockmw.ErrLost))
			return nil // it says that it succeeded, but it did not run alone
		}, func(_ context.Context, m string, attempt int, err error) error {
			j.add("failed", m, attempt, errors.Is(err, lockmw.ErrLost))
			if attempt == 1 {
				return err
			}
			return nil
		}, lockmw.WithMaxHold(time.Second)).Open(j.done)
		submit(t, p, "a1")
		time.Sleep(10 * time.Second)
		j.want(t, "a1 true", "failed a1 1 true", "a1 true", "failed a1 2 true", "done a1")
		p.Close(now())
	})
}

func TestCloseStartsNothingAndHandsBackInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		locks := lockmw.NewLocal()
		p := consume.New(quiet{locks}, itself, func(ctx context.Context, m string) error {
			switch m {
			case "f1":
				return errStock
			case "s1": // ends in time
				time.Sleep(time.Second)
				return nil
			}
			<-ctx.Done()
			time.Sleep(time.Second)
			j.add(m, "ends because of", context.Cause(ctx))
			return errStock
		}, func(_ context.Context, m string, _ int, err error) error { j.add("failed", m); return err },
			consume.WithRetry(time.Hour, time.Hour)).Open(j.done)
		release := usertest.Occupy(t, locks, "order:w")
		submit(t, p, "w1", "a1", "s1", "a2", "f1", "s2", "f2")
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, errors.New("the rebalance"))
		defer cancel()
		start := time.Now()
		for range 2 {
			if left := p.Close(ctx); !slices.Equal(left, []string{"w1", "a1", "a2", "f1", "s2", "f2"}) {
				t.Error(left)
			}
		}
		if took := time.Since(start); took != 6*time.Second {
			t.Errorf("Close took %v", took)
		}
		release()
		j.want(t, "failed f1", "done s1", "a1 ends because of the rebalance")
		for range 100 { // there is room
			if err := p.Submit(t.Context(), "a3"); !errors.Is(err, consume.ErrClosed) {
				t.Fatal(err)
			}
		}
		if !usertest.IsFree(locks, "order:a") || !usertest.IsFree(locks, "order:w") {
			t.Error("a lock is held after Close")
		}
	})
}

// The lock of a message that has failed before is busy.
func TestCloseEndsTheWaitOfALaterAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := lockmw.NewLocal()
		p := consume.New(quiet{locks}, itself, func(context.Context, string) error { return errStock }, nil,
			consume.WithRetry(time.Second, time.Second)).OpenInOrder(func(string) {})
		submit(t, p, "a1")
		synctest.Wait()
		usertest.Occupy(t, locks, "order:a")
		time.Sleep(2 * time.Second)
		start := time.Now()
		if left := p.Close(context.Background()); len(left) != 1 || time.Since(start) != 0 {
			t.Error(left, time.Since(start))
		}
	})
}

// Otherwise b1, which was handled, could not be committed, and would be handled again.
func TestCloseFillsTheGapsBeforeMessagesThatAreDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, locks := new(journal), lockmw.NewLocal()
		p := consume.New(quiet{locks}, itself, func(_ context.Context, m string) error {
			if m != "b1" {
				time.Sleep(time.Second)
			}
			return nil
		}, nil).OpenInOrder(j.done)
		release := usertest.Occupy(t, locks, "order:w")
		submit(t, p, "a1", "a2", "w1", "b1", "a3")
		synctest.Wait()
		time.AfterFunc(3*time.Second, release)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if left := p.Close(ctx); !slices.Equal(left, []string{"a3"}) {
			t.Error(left)
		}
		j.want(t, "done a1", "done a2", "done w1", "done b1")
	})
}

func TestSubmitWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		p := consume.New(quiet{lockmw.NewLocal()}, itself, func(ctx context.Context, m string) error {
			time.Sleep(time.Minute)
			return ctx.Err()
		}, nil, consume.WithLimit(2)).Open(j.done)
		submit(t, p, "a1", "a2")
		cause := errors.New("the poll interval")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		if err := p.Submit(ctx, "b1"); !errors.Is(err, cause) {
			t.Error(err)
		}
		submit(t, p, "c1")
		j.want(t, "done a1")
		closed := make(chan error)
		go func() { closed <- p.Submit(context.Background(), "d1") }()
		synctest.Wait()
		left := p.Close(context.Background())
		if err := <-closed; !errors.Is(err, consume.ErrClosed) || len(left) != 0 {
			t.Error(err, left)
		}
	})
}

type traceKey struct{}

// The consumer's own locks do not belong to its messages, and the end of its context is not theirs.
func TestHandlersHaveTheValuesOfSubmitButNotItsHoldsAndEnd(t *testing.T) {
	locks := lockmw.NewLocal()
	got := make(chan string, 2)
	p := consume.New(locks, func(_ context.Context, m string) (string, error) {
		if m == "free" {
			return "", lockmw.ErrNoLock
		}
		return "order:1", nil
	}, func(ctx context.Context, m string) error {
		_, leads := lockmw.Held(ctx, "lead:1")
		_, locked := lockmw.Held(ctx, "order:1")
		got <- fmt.Sprint(m, " ", ctx.Value(traceKey{}), " ", leads == nil, " ", locked == nil, " ", ctx.Err())
		return nil
	}, nil).Open(func(string) {})
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), traceKey{}, "trace"))
	ctx, hold := usertest.Lock(t, ctx, locks, "lead:1")
	for _, m := range []string{"locked", "free"} {
		if err := p.Submit(ctx, m); err != nil {
			t.Error(err)
		}
		want := map[string]string{"locked": "locked trace false true <nil>", "free": "free trace false false <nil>"}[m]
		if s := usertest.Receive(t, m, got); s != want {
			t.Errorf("%s, want %s", s, want)
		}
	}
	cancel()
	_ = hold.Unlock()
	p.Close(t.Context())
}

func TestMistakesPanic(t *testing.T) {
	locks, handle := lockmw.NewLocal(), func(context.Context, string) error { return nil }
	for says, f := range map[string]func(){
		"the Locker is nil":       func() { consume.New(nil, itself, handle, nil) },
		"the key function is nil": func() { consume.New(locks, nil, handle, nil) },
		"the handler is nil":      func() { consume.New[string](locks, itself, nil, nil) },
		"WithLimit(0)":            func() { consume.New(locks, itself, handle, nil, consume.WithLimit(0)) },
		"WithRetry":               func() { consume.New(locks, itself, handle, nil, consume.WithRetry(2, 1)) },
		"WithPlace":               func() { consume.New(locks, itself, handle, nil, lockmw.WithPlace("a", time.Second)) },
		"lease of -1ns":           func() { consume.New(locks, itself, handle, nil, lockmw.WithLease(-1)) },
		"option 1 is <nil>":       func() { consume.New(locks, itself, handle, nil, nil) },
		"done is nil":             func() { consume.New(locks, itself, handle, nil).Open(nil) },
	} {
		usertest.WantPanic(t, "consume: ", says, f)
	}
}

// Redis is unreachable for a minute, while a message waits and others arrive.
func TestMessagesSurviveAnOutageOfRedis(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		j := new(journal)
		locks := usertest.Client(t, s)
		p := consume.New(quiet{locks}, itself, func(_ context.Context, m string) error { j.add(m); return nil },
			func(_ context.Context, m string, _ int, err error) error { j.add("gave up", m, err); return nil }).OpenInOrder(j.done)
		submit(t, p, "a1")
		time.Sleep(time.Second)
		s.Mini.SetError("LOADING Redis is loading the dataset in memory")
		submit(t, p, "a2", "a3")
		time.Sleep(time.Minute)
		j.want(t, "a1", "done a1")
		s.Mini.SetError("")
		time.Sleep(15 * time.Second)
		j.want(t, "a1", "done a1", "a2", "done a2", "a3", "done a3")
		p.Close(now())
	})
}
