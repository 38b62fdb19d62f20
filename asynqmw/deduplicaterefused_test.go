package asynqmw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

var byEventItem = asynqmw.By("item", asynqmw.Payload(func(e event) string { return e.Item }))

func TestATaskThatAnInnerLockPutsBackHasNotRun(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		runs, locks := make(chan int, 10), usertest.Client(t, s)
		release := usertest.Occupy(t, usertest.Client(t, s), "item:7")
		h := asynqmw.Deduplicate(idempotency.New(locks), byEvent)(asynqmw.WithLock(locks, byEventItem)(hasRun(runs)))
		q := startQueueOn(t, queueOn(s), parked(4), h)
		id := q.enqueue(fulfilEvent("1"), asynq.Retention(time.Hour))
		q.awaitParked(id)
		release()
		q.awaitDone(id)
		ranWith(t, runs, 1)
	})
}

// A task that an inner middleware refuses has not run, so the next task with the key is like the first.
func TestRefusalsInsideForgetTheRun(t *testing.T) {
	broken := errors.New("broken")
	local := lockmw.NewLocal()
	release := usertest.Occupy(t, local, "item:7")
	noKey := func(context.Context, *asynq.Task) (string, error) { return "", broken }
	byItemOnly := asynqmw.PayloadKey(func(e event) idempotency.Key { return idempotency.Key{Scope: "items", ID: e.Item} })
	noRunKey := func(context.Context, *asynq.Task) (idempotency.Key, error) { return idempotency.Key{}, broken }
	down := lockmw.LockerFunc(func(ctx context.Context, _ string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return ctx, nil, lockmw.ErrUnavailable
	})
	for name, inner := range map[string]asynq.MiddlewareFunc{
		"a busy lock":             asynqmw.WithLock(local, byEventItem),
		"a busy lock that drops":  asynqmw.WithLock(local, byEventItem, asynqmw.WithOnBusy(asynqmw.Drop)),
		"an unavailable lock":     asynqmw.WithLock(down, byEventItem),
		"a task without a key":    asynqmw.WithLock(local, noKey),
		"an inner run":            asynqmw.Deduplicate(idempotency.New(down, idempotency.WithStore(&oneRecord{})), byItemOnly),
		"an inner run of no task": asynqmw.Deduplicate(idempotency.New(lockmw.NewLocal()), noRunKey),
	} {
		t.Run(name, func(t *testing.T) {
			runs, refuses := make(chan int, 10), true
			refused, free := inner(never(t)), hasRun(runs)
			h := asynqmw.Deduplicate(idempotency.New(lockmw.NewLocal()), byEvent)(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
				if refuses {
					return refused.ProcessTask(ctx, task)
				}
				return free.ProcessTask(ctx, task)
			}))
			if err := h.ProcessTask(t.Context(), fulfilEvent("1")); err == nil {
				t.Error("the task that is refused inside succeeds")
			}
			refuses = false
			deliver(t, h, fulfilEvent("1"))
			ranWith(t, runs, 1)
		})
	}
	release()
}

func TestAKeyThatComesWithAnotherPayloadArchivesTheTask(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		runs := make(chan int, 10)
		once := idempotency.New(usertest.Client(t, s))
		q := startQueueOn(t, queueOn(s), parked(4), asynqmw.Deduplicate(once, byEvent)(hasRun(runs)))
		q.awaitDone(q.enqueue(taskOf("order:fulfil", "acme", "secret", "7"), asynq.Retention(time.Hour)))
		info := q.await(q.enqueue(taskOf("order:fulfil", "acme", "secret", "8")), asynq.TaskStateArchived)
		if !strings.Contains(info.LastErr, "the key was used for another request") || strings.Contains(info.LastErr, "secret") || strings.Contains(info.LastErr, "acme") {
			t.Errorf("its error is %q", info.LastErr)
		}
		ranWith(t, runs, 1)
	})
}

func TestAnOldKeyArchivesTheTask(t *testing.T) {
	once := idempotency.New(lockmw.NewLocal(), idempotency.WithKeyTime(func(idempotency.Key) (time.Time, bool) { return time.Unix(0, 0), true }))
	err := asynqmw.Deduplicate(once, byEvent)(never(t)).ProcessTask(t.Context(), fulfilEvent("1"))
	if !errors.Is(err, idempotency.ErrKeyExpired) || !errors.Is(err, asynq.SkipRetry) {
		t.Errorf("got %v", err)
	}
}

// The key and the fingerprint are those that the documentation of Deduplicate promises.
func TestATaskThatNeverReturnsIsArchivedAfterThreeRuns(t *testing.T) {
	local := lockmw.NewLocal()
	once, task := idempotency.New(local), fulfilEvent("1")
	key := idempotency.Key{Scope: lockmw.Key("task", "order:fulfil", "acme"), ID: "1"}
	last := ""
	for range 3 {
		run, err := once.Begin(t.Context(), key, key.Fingerprint([]byte(task.Type()), task.Payload()), idempotency.RunAgain)
		if err != nil {
			t.Fatal(err)
		}
		last = run.ID()
		local.Expire(run.LockKey())
	}
	runs := make(chan int, 10)
	h := asynqmw.Deduplicate(once, byEvent)(hasRun(runs))
	err := h.ProcessTask(t.Context(), task)
	if !errors.Is(err, idempotency.ErrUnknownOutcome) || !errors.Is(err, asynq.SkipRetry) || !strings.Contains(fmt.Sprint(err), last) {
		t.Errorf("got %v, want an error that names the run %s", err, last)
	}
	if len(runs) > 0 {
		t.Error("it has run")
	}
	if err := once.Resolve(t.Context(), key, last, nil); err != nil {
		t.Fatal(err)
	}
	deliver(t, h, task)
	if len(runs) != 1 {
		t.Error("it has not run after Resolve")
	}
}

// oneRecord is a Store with one record, which never ends.
type oneRecord struct {
	look, begin, end error
}

func (s *oneRecord) Look(context.Context, string) (idempotency.Record, error) {
	return idempotency.Record{}, s.look
}

func (s *oneRecord) Begin(_ context.Context, c idempotency.Claim) (idempotency.Record, error) {
	return idempotency.Record{State: idempotency.Open, Run: c.Run, Fingerprint: c.Fingerprint}, s.begin
}

func (s *oneRecord) End(context.Context, idempotency.End) (bool, error) { return s.end == nil, s.end }

func (s *oneRecord) Void(context.Context, string, string) error { return nil }

func TestWhatAStoreAnswers(t *testing.T) {
	granted := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		ctx, hold := lockmw.NewHold(ctx, key, 1, func(context.Context) error { return nil })
		return ctx, hold, nil
	})
	down := errors.New("the store is down")
	for name, tt := range map[string]struct {
		store oneRecord
		want  []error
		runs  int
		busy  bool
	}{
		"it is down":                         {oneRecord{look: down}, []error{lockmw.ErrUnavailable, down}, 0, false},
		"it is down when the run begins":     {oneRecord{begin: down}, []error{lockmw.ErrUnavailable, down}, 0, false},
		"another run is in flight":           {oneRecord{begin: idempotency.ErrInFlight}, []error{idempotency.ErrInFlight, lockmw.ErrBusy}, 0, true},
		"it does not record that it is done": {oneRecord{end: down}, []error{idempotency.ErrNotRecorded}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			runs := make(chan int, 10)
			once := idempotency.New(granted, idempotency.WithStore(&tt.store))
			err := asynqmw.Deduplicate(once, byEvent)(hasRun(runs)).ProcessTask(t.Context(), fulfilEvent("1"))
			for _, want := range tt.want {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			if errors.Is(err, asynq.SkipRetry) || errors.Is(err, asynq.RevokeTask) || asynqmw.IsBusy(err) != tt.busy {
				t.Errorf("asynq would not try the task again, or spend a retry for it: %v", err)
			}
			if len(runs) != tt.runs {
				t.Errorf("%d runs, want %d", len(runs), tt.runs)
			}
		})
	}
}

func TestAnUnavailableRedisSpendsARetryOfADeduplicatedTask(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	rdb := s.NewClient(t)
	once := idempotency.New(usertest.Abandoned(t, rdb))
	q := startQueue(t, quick(), asynqmw.Deduplicate(once, byEvent)(never(t)))
	rdb.Close()
	info := q.await(q.enqueue(fulfilEvent("1")), asynq.TaskStateRetry)
	if info.Retried != 1 || !strings.Contains(info.LastErr, "unavailable") {
		t.Errorf("%d retries: %s", info.Retried, info.LastErr)
	}
}

// The answer of a task is that it is done, so it does not matter if that cannot be read.
func TestAnAnswerThatCannotBeReadMeansThatTheWorkIsDone(t *testing.T) {
	same := func(text []byte) ([]byte, error) { return text, nil }
	local := lockmw.NewLocal()
	sealing := idempotency.New(local, idempotency.WithSealer(idempotency.Sealer{Seal: same, Open: same}))
	runs := make(chan int, 10)
	deliver(t, asynqmw.Deduplicate(sealing, byEvent)(hasRun(runs)), fulfilEvent("1"))
	ranWith(t, runs, 1)
	deliver(t, asynqmw.Deduplicate(idempotency.New(local), byEvent)(never(t)), fulfilEvent("1"))
}

func TestADeduplicatedTaskInARunOfItsKeyRuns(t *testing.T) {
	runs := make(chan int, 10)
	once := asynqmw.Deduplicate(idempotency.New(lockmw.NewLocal()), byEvent)
	h := once(once(hasRun(runs)))
	for range 2 {
		deliver(t, h, fulfilEvent("1"))
	}
	ranWith(t, runs, 1)
}

// The outer run has done nothing if the inner one has not, whatever the handlers between them return.
func TestNotDoneOfAnInnerRunReachesTheOuterOne(t *testing.T) {
	perItem := asynqmw.PayloadKey(func(e event) idempotency.Key { return idempotency.Key{Scope: "items", ID: e.Item} })
	outer, inner := idempotency.New(lockmw.NewLocal()), idempotency.New(lockmw.NewLocal())
	runs, first := make(chan int, 10), true
	h := asynqmw.Deduplicate(outer, byEvent)(asynqmw.Deduplicate(inner, perItem)(handle(func(ctx context.Context) error {
		if first {
			first = false
			idempotency.NotDone(ctx)
			return nil
		}
		runs <- idempotency.Attempt(ctx)
		return nil
	})))
	for range 2 {
		deliver(t, h, fulfilEvent("1"))
	}
	ranWith(t, runs, 1)
}

func TestTasksWithoutAKeyDoNotRun(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		key     idempotency.Key
		err     error
		want    error
		archive bool
	}{
		"no scope":      {idempotency.Key{ID: "1"}, nil, lockmw.ErrInvalidKey, true},
		"no ID":         {idempotency.Key{Scope: "acme"}, nil, lockmw.ErrInvalidKey, true},
		"a long ID":     {idempotency.Key{Scope: "acme", ID: strings.Repeat("x", 256)}, nil, lockmw.ErrInvalidKey, true},
		"a failed call": {idempotency.Key{}, broken, broken, false},
	} {
		t.Run(name, func(t *testing.T) {
			key := func(context.Context, *asynq.Task) (idempotency.Key, error) { return tt.key, tt.err }
			err := asynqmw.Deduplicate(idempotency.New(lockmw.NewLocal()), key)(never(t)).ProcessTask(t.Context(), fulfilEvent("1"))
			if !errors.Is(err, tt.want) || errors.Is(err, asynq.SkipRetry) != tt.archive {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("not JSON", func(t *testing.T) {
		err := asynqmw.Deduplicate(idempotency.New(lockmw.NewLocal()), byEvent)(never(t)).ProcessTask(t.Context(), asynq.NewTask("order:fulfil", []byte("{")))
		if !errors.Is(err, asynq.SkipRetry) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("ErrNoLock", func(t *testing.T) {
		runs := make(chan int, 10)
		key := func(context.Context, *asynq.Task) (idempotency.Key, error) {
			return idempotency.Key{}, lockmw.ErrNoLock
		}
		deliver(t, asynqmw.Deduplicate(idempotency.New(lockmw.NewLocal()), key)(hasRun(runs)), fulfilEvent("1"))
		ranWith(t, runs, 0)
	})
}

func TestMistakesOfDeduplicatePanicWhereItIsMounted(t *testing.T) {
	once := idempotency.New(lockmw.NewLocal())
	mount := func(opts ...asynqmw.Option) func() { return func() { asynqmw.Deduplicate(once, byEvent, opts...) } }
	for name, tt := range map[string]struct {
		mount func()
		says  string
	}{
		"no Runner":             {func() { asynqmw.Deduplicate(nil, byEvent) }, "Runner is nil"},
		"an empty Runner":       {func() { asynqmw.Deduplicate(new(idempotency.Runner), byEvent) }, "not made by New"},
		"no key":                {func() { asynqmw.Deduplicate(once, nil) }, "key function is nil"},
		"no handler":            {func() { asynqmw.Deduplicate(once, byEvent)(nil) }, "handler to run once is nil"},
		"no fields":             {func() { asynqmw.PayloadKey[event](nil) }, "PayloadKey"},
		"an option of the lock": {mount(lockmw.WithWait(time.Second)), "WithLockOptions"},
		"a kept place":          {mount(asynqmw.WithPlaceKept(time.Minute)), "WithPlaceKept"},
		"a nil option":          {mount(nil), "Deduplicate: option 1"},
		"a contradiction":       {mount(asynqmw.WithOnBusy(asynqmw.Drop), asynqmw.WithMaxRequeues(1)), "WithOnBusy(Drop)"},
	} {
		t.Run(name, func(t *testing.T) { usertest.WantPanic(t, "asynqmw: ", tt.says, tt.mount) })
	}
}

// A task that meets a busy key may ask several times in one attempt, for example before and after it is parked.
func TestEachAttemptOfADuplicateHasOneOutcome(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		var o usertest.Outcomes
		var attempts atomic.Int32
		counted := func(next asynq.Handler) asynq.Handler {
			return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
				attempts.Add(1)
				return next.ProcessTask(ctx, task)
			})
		}
		begun, finish := make(chan struct{}, 1), make(chan struct{})
		h := handle(func(context.Context) error {
			begun <- struct{}{}
			<-finish
			return nil
		})
		once := idempotency.New(usertest.Client(t, s, lockmw.WithObserver(o.Observer())))
		q := startQueueOn(t, queueOn(s), parked(4), counted(asynqmw.Deduplicate(once, byEvent)(h)))
		ids := []string{q.enqueue(fulfilEvent("1"), asynq.Retention(time.Hour))}
		<-begun
		for range 5 {
			ids = append(ids, q.enqueue(fulfilEvent("1"), asynq.Retention(time.Hour)))
		}
		q.awaitParked(ids[1:]...)
		close(finish)
		q.awaitDone(ids...)
		got := o.Take()
		if len(got) != int(attempts.Load()) {
			t.Errorf("%d attempts have %d outcomes: %q", attempts.Load(), len(got), got)
		}
		count := func(outcome string) (n int) {
			for _, o := range got {
				if o == outcome {
					n++
				}
			}
			return n
		}
		if kept, replayed := count("kept"), count("replayed"); kept != 1 || replayed != len(ids)-1 || !slices.Contains(got, "in_flight") {
			t.Errorf("the outcomes are %q, want one kept, %d replayed and some in_flight", got, len(ids)-1)
		}
	})
}
