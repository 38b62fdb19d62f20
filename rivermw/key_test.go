package rivermw_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rivermw"
)

func row(args string) *rivertype.JobRow {
	return &rivertype.JobRow{ID: 1, Kind: "invoice", Attempt: 1, MaxAttempts: 3, EncodedArgs: []byte(args)}
}

func TestKeysOfJobs(t *testing.T) {
	for name, tt := range map[string]struct {
		key  rivermw.KeyFunc
		args string
		want string
	}{
		"by a field":       {byCustomer, `{"customer":"7"}`, "customer:7"},
		"an escaped field": {byCustomer, `{"customer":"a:b"}`, lockmw.Key("customer", "a:b")},
		"several parts": {rivermw.By("order", rivermw.Args(func(a invoiceArgs) string { return a.Customer }),
			func(_ context.Context, job *rivertype.JobRow) (string, error) { return job.Kind, nil }), `{"customer":"7"}`, "order:7:invoice"},
		"constant": {rivermw.Const("report", "daily"), `{}`, "report:daily"},
	} {
		if got, err := tt.key(t.Context(), row(tt.args)); got != tt.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tt.want)
		}
	}
}

func TestAJobWithoutAValidKeyIsCancelled(t *testing.T) {
	for name, tt := range map[string]struct {
		key  rivermw.KeyFunc
		args string
	}{
		"no field":            {byCustomer, `{}`},
		"an empty field":      {byCustomer, `{"customer":""}`},
		"another type":        {byCustomer, `{"customer":7}`},
		"null":                {byCustomer, ` null `},
		"an array":            {byCustomer, `[]`},
		"no JSON":             {byCustomer, `{`},
		"no args":             {byCustomer, ``},
		"no UTF-8":            {byCustomer, "{\"customer\":\"\xff\"}"},
		"a key of 2 kB":       {byCustomer, `{"customer":"` + strings.Repeat("x", 2048) + `"}`},
		"an empty key":        {func(context.Context, *rivertype.JobRow) (string, error) { return "", nil }, `{}`},
		"a part that refuses": {func(context.Context, *rivertype.JobRow) (string, error) { return "", lockmw.ErrInvalidKey }, `{}`},
	} {
		err := work(t, rivermw.WithLock(lockmw.NewLocal(), tt.key), row(tt.args), never(t))
		if _, ok := errors.AsType[*rivertype.JobCancelError](err); !ok || !errors.Is(err, lockmw.ErrInvalidKey) {
			t.Errorf("%s: %v, want an invalid key that cancels the job", name, err)
		}
		if len(err.Error()) > 500 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
}

func TestAKeyFunctionThatFailsFailsTheAttempt(t *testing.T) {
	broken := errors.New("no database")
	part := func(context.Context, *rivertype.JobRow) (string, error) { return "", broken }
	err := work(t, rivermw.WithLock(lockmw.NewLocal(), rivermw.By("customer", part)), row(`{}`), never(t))
	if _, ok := errors.AsType[*rivertype.JobCancelError](err); ok || !errors.Is(err, broken) {
		t.Errorf("%v, want the error of the part", err)
	}
}

func TestAJobThatNeedsNoLockRuns(t *testing.T) {
	key := func(context.Context, *rivertype.JobRow) (string, error) { return "", lockmw.ErrNoLock }
	ran := false
	err := work(t, rivermw.WithLock(lockmw.NewLocal(), key), row(`{}`), func(ctx context.Context) error {
		_, ran = lockmw.FromContext(ctx)
		ran = !ran
		return nil
	})
	if err != nil || !ran {
		t.Errorf("ran %t, %v", ran, err)
	}
}

// All jobs would share a hold of the context with which the client was started.
func TestAHoldOfTheClientsContextIsHidden(t *testing.T) {
	locks := lockmw.NewLocal()
	ctx, hold, err := locks.Lock(t.Context(), lockmw.Key("customer", "7"))
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, hold)
	lock := rivermw.WithLock(locks, byCustomer, lockmw.WithWait(0))
	if err := lock.Work(ctx, row(`{"customer":"7"}`), never(t)); !rivermw.IsBusy(err) {
		t.Errorf("%v, want a busy lock", err)
	}
}

func TestTwoLocksOfAJobNest(t *testing.T) {
	locks := lockmw.NewLocal()
	outer, inner := rivermw.WithLock(locks, rivermw.Const("report")), rivermw.WithLock(locks, byCustomer)
	err := work(t, outer, row(`{"customer":"7"}`), func(ctx context.Context) error {
		return inner.Work(ctx, row(`{"customer":"7"}`), func(ctx context.Context) error {
			_, err1 := lockmw.Held(ctx, "report")
			_, err2 := lockmw.Held(ctx, "customer:7")
			return errors.Join(err1, err2)
		})
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAWaitForAnotherJobIsNotReportedAsASelfWait(t *testing.T) {
	usertest.NoSelfWait(t, func(t *testing.T, c *lockmw.Client, do func()) {
		err := work(t, rivermw.WithLock(c, byCustomer, lockmw.WithWait(10*time.Second)), row(`{"customer":"7"}`), func(context.Context) error {
			do()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func work(t *testing.T, lock rivertype.WorkerMiddleware, job *rivertype.JobRow, next func(context.Context) error) error {
	t.Helper()
	return lock.Work(t.Context(), job, next)
}

func never(t *testing.T) func(context.Context) error {
	return func(context.Context) error {
		t.Error("the worker ran")
		return nil
	}
}

func TestMistakesPanicAtStart(t *testing.T) {
	locks := lockmw.NewLocal()
	for name, f := range map[string]func(){
		"no Locker":               func() { rivermw.WithLock(nil, byCustomer) },
		"a nil Client":            func() { rivermw.WithLock((*lockmw.Client)(nil), byCustomer) },
		"no key":                  func() { rivermw.WithLock(locks, nil) },
		"no kind":                 func() { rivermw.By("") },
		"no part":                 func() { rivermw.By("customer") },
		"a nil part":              func() { rivermw.By("customer", nil) },
		"a nil field":             func() { rivermw.Args[invoiceArgs](nil) },
		"an empty constant":       func() { rivermw.Const("") },
		"a negative wait":         func() { rivermw.WithLock(locks, byCustomer, lockmw.WithWait(-1)) },
		"a place for all jobs":    func() { rivermw.WithLock(locks, byCustomer, lockmw.WithPlace("x", 1e9)) },
		"an unknown action":       func() { rivermw.WithLock(locks, byCustomer, rivermw.WithOnBusy(4)) },
		"no waiting":              func() { rivermw.WithLock(locks, byCustomer, rivermw.WithMaxWaiting(-1)) },
		"no snooze":               func() { rivermw.WithLock(locks, byCustomer, rivermw.WithSnooze(0, 1)) },
		"a snooze that shrinks":   func() { rivermw.WithLock(locks, byCustomer, rivermw.WithSnooze(2, 1)) },
		"no snoozes":              func() { rivermw.WithLock(locks, byCustomer, rivermw.WithMaxSnoozes(0)) },
		"no place":                func() { rivermw.WithLock(locks, byCustomer, rivermw.WithPlaceKept(0)) },
		"a place that ends early": func() { rivermw.WithLock(locks, byCustomer, rivermw.WithPlaceKept(15e9)) },
		"no Waker":                func() { rivermw.WithLock(locks, byCustomer, rivermw.WithWaker(nil)) },
		"a limit without snoozes": func() {
			rivermw.WithLock(locks, byCustomer, rivermw.WithMaxSnoozes(1), rivermw.WithOnBusy(rivermw.Drop))
		},
		"an option that is nil":      func() { rivermw.WithLock(locks, byCustomer, nil) },
		"a trace option that is nil": func() { rivermw.Trace(nil, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestIsBusy(t *testing.T) {
	locks := lockmw.NewLocal()
	defer release(t, occupy(t, locks, "7"))
	for action, want := range map[rivermw.BusyAction]bool{rivermw.Snooze: true, rivermw.Fail: false, rivermw.Cancel: false} {
		err := work(t, rivermw.WithLock(locks, byCustomer, lockmw.WithWait(0), rivermw.WithOnBusy(action)), row(`{"customer":"7"}`), never(t))
		if rivermw.IsBusy(err) != want || !errors.Is(err, lockmw.ErrBusy) {
			t.Errorf("%v: IsBusy is %t, want %t (%v)", action, !want, want, err)
		}
	}
	if rivermw.IsBusy(river.JobSnooze(1)) || rivermw.BusyAction(9).String() != "BusyAction(9)" {
		t.Error("a worker's snooze counts as a busy lock")
	}
}
