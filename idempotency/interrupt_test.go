package idempotency_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/interrupt"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// A buyerSpec describes a process that orders tea, each key once.
type buyerSpec struct {
	Addr   string // of Redis
	Way    string // the policy, or naive
	Ledger interrupt.Ledger
	Lease  time.Duration
	Effort time.Duration // how long an order still works after its effect
	Wait   time.Duration // for a run in flight
}

// The ways.
const (
	runAgain = "RunAgain"
	refuse   = "Refuse"
	recovers = "Recover"
	mixed    = "each policy" // the key decides which
	naive    = "SET NX and SET"
)

// wayOf returns the policy of a key.
func wayOf(key string) string {
	return []string{runAgain, refuse, recovers}[int(key[len(key)-1])%3]
}

// A buyer calls in one process. Its effects are in a ledger, which no transaction protects.
type buyer struct {
	buyerSpec
	rdb   *redis.Client
	locks *lockmw.Client
	once  *idempotency.Runner
	steps *interrupt.Steps // nil in the parent
}

// openBuyer is for interrupt.ChildMain.
func openBuyer(spec buyerSpec, s *interrupt.Steps) (interrupt.Call, func() error, error) {
	b, err := newBuyer(spec, s)
	if err != nil {
		return nil, nil, err
	}
	return b.call, b.close, nil
}

func newBuyer(spec buyerSpec, s *interrupt.Steps) (*buyer, error) {
	b := &buyer{buyerSpec: spec, steps: s, rdb: redis.NewClient(&redis.Options{Addr: spec.Addr})}
	b.rdb.AddHook(s.Hook())
	var err error
	patience := lockmw.WithUnlockTimeout(time.Minute) // a call that is stopped at its end continues later
	if b.locks, err = lockmw.New(b.rdb, lockmw.WithLease(spec.Lease), patience, lockmw.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		return nil, err
	}
	b.once = idempotency.New(b.locks, idempotency.WithWait(spec.Wait))
	return b, nil
}

func (b *buyer) close() error { return errors.Join(b.locks.Close(), b.rdb.Close()) }

func (b *buyer) call(ctx context.Context, id string) (string, error) {
	if b.Way == naive {
		return b.naively(ctx, id)
	}
	way := b.Way
	if way == mixed {
		way = wayOf(id)
	}
	policy := map[string]idempotency.Policy{
		runAgain: idempotency.RunAgain, refuse: idempotency.Refuse, recovers: idempotency.Recover(b.find),
	}[way]
	key := idempotency.Key{Scope: "user-7", ID: id}
	return idempotency.Do(ctx, b.once, key, order{"tea"}, policy, func(ctx context.Context, _ order) (string, error) {
		return b.work(ctx, id)
	})
}

// work does not look whether its context has ended.
func (b *buyer) work(ctx context.Context, id string) (string, error) {
	e := interrupt.Effect{Answer: rand.Text(), Attempt: idempotency.Attempt(ctx)}
	if b.Way == recovers || b.Way == mixed && wayOf(id) == recovers {
		e.Attempt = 0 // ErrNotDone makes the next run like the first
	}
	err := b.steps.Around("effect", func() error { return b.Ledger.Add(id, e) })
	<-time.After(b.Effort)
	return e.Answer, err
}

// find is for Recover.
func (b *buyer) find(_ context.Context, u idempotency.Unfinished) (idempotency.Answer, error) {
	effects, err := b.Ledger.Of(u.Key.ID)
	if err != nil {
		return idempotency.Answer{}, err
	}
	if len(effects) == 0 {
		return idempotency.Answer{}, idempotency.ErrNotDone
	}
	return idempotency.Result(effects[0].Answer)
}

// naively is what many services have instead of a Runner. It waits for a run in flight as a Runner does.
func (b *buyer) naively(ctx context.Context, id string) (string, error) {
	limit := time.After(b.Wait)
	const working = "working"
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		begun, err := b.rdb.SetNX(ctx, "naive:"+id, working, b.Lease).Result()
		if err != nil {
			return "", err
		}
		if begun {
			break
		}
		switch answer, err := b.rdb.Get(ctx, "naive:"+id).Result(); {
		case err == nil && answer != working:
			return answer, nil
		case err != nil && !errors.Is(err, redis.Nil):
			return "", err
		}
		select {
		case <-poll.C:
		case <-limit:
			return "", idempotency.ErrInFlight
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	answer, err := b.work(ctx, id)
	if err != nil {
		return "", err
	}
	return answer, b.rdb.Set(ctx, "naive:"+id, answer, time.Hour).Err()
}

// play interrupts a buyer at each point. final are the kinds of outcomes that a repetition may end with.
func play(t *testing.T, fate interrupt.Fate, way string, once bool, final ...interrupt.Kind) []interrupt.Result {
	t.Helper()
	spec := buyerSpec{
		Addr: redistest.Redis(t).Addr(), Way: way, Lease: interrupt.Lease, Wait: 10 * time.Second,
		Ledger: interrupt.Ledger{Path: filepath.Join(t.TempDir(), "effects")},
	}
	here, err := newBuyer(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { isError(t, here.close(), nil) })
	return interrupt.Play(t, fate, func(n int) interrupt.Stage {
		id := fmt.Sprintf("call-%d", n)
		return interrupt.Stage{
			Spec: spec, Key: id, Repeat: here.call, Once: once, Final: final,
			Effects: func() ([]interrupt.Effect, error) { return spec.Ledger.Of(id) },
		}
	})
}

func TestAnInterruptedRunContradictsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fate  interrupt.Fate
		way   string
		once  bool
		final []interrupt.Kind
	}{
		{interrupt.Kill, runAgain, false, []interrupt.Kind{interrupt.Success}},
		{interrupt.Kill, refuse, true, []interrupt.Kind{interrupt.Success, interrupt.Unknown}},
		{interrupt.Kill, recovers, true, []interrupt.Kind{interrupt.Success}},
		{interrupt.Stop, runAgain, false, []interrupt.Kind{interrupt.Success}},
		{interrupt.Stop, refuse, true, []interrupt.Kind{interrupt.Success}},    // of the stopped run itself
		{interrupt.Stop, recovers, false, []interrupt.Kind{interrupt.Success}}, // a stopped process may do the effect late
	} {
		t.Run(fmt.Sprintf("%s, %s", c.way, c.fate), func(t *testing.T) {
			t.Parallel()
			results := play(t, c.fate, c.way, c.once, c.final...)
			interrupt.Check(t, results, "evalsha", "effect", "evalsha") // begin, work and end
			for _, r := range results {
				if first := r.Outcomes[0]; strings.HasSuffix(r.Point, "effect") && c.way == refuse && first.Kind != interrupt.Unknown {
					t.Errorf("a repetition after an interruption %s got: %v", r.Point, first)
				}
			}
		})
	}
}

// Otherwise the judge might be blind.
func TestTheJudgeFindsTheFaultsOfANaiveService(t *testing.T) {
	t.Parallel()
	for fate, want := range map[interrupt.Fate]string{interrupt.Kill: interrupt.DoubleEffect, interrupt.Stop: interrupt.Contradiction} {
		t.Run(string(fate), func(t *testing.T) {
			t.Parallel()
			found := make(map[string][]string)
			for _, r := range play(t, fate, naive, true, interrupt.Success) {
				for _, f := range r.Faults {
					found[f] = append(found[f], r.Point)
				}
			}
			if len(found[want]) == 0 {
				t.Errorf("no %s was found: %q", want, found)
			}
			t.Logf("%q", found)
		})
	}
}
