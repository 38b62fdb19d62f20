package docs

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/lockmw"
)

// Every(24h) is midnight UTC, not "once a day", as docs/scheduled.md says.
func TestEveryDayIsMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // from midnight UTC on
		time.Sleep(2*time.Hour + 30*time.Minute)
		run := func(context.Context) error { t.Error("it runs"); return nil }
		ran, err := lockmw.Once(t.Context(), lockmw.NewLocal(), "report:nightly", lockmw.Every(24*time.Hour), run)
		if ran || !errors.Is(err, lockmw.ErrClockOff) {
			t.Errorf("at 02:30: %t, %v, want ErrClockOff", ran, err)
		}
	})
}

// The tests of docs/your-tests.md.

func transfer(ctx context.Context, locks lockmw.Locker, account string) error {
	return lockmw.Do(ctx, locks, lockmw.Key("account", account), func(context.Context) error { return nil })
}

func TestTransferWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := lockmw.NewLocal()
		_, hold, err := locks.Lock(t.Context(), lockmw.Key("account", "7"))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, func() { _ = hold.Unlock() })

		start := time.Now()
		if err := transfer(t.Context(), locks, "7"); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited != time.Hour { // of the time in the bubble
			t.Errorf("transfer waited %v", waited)
		}
	})
}

func TestBusyRoute(t *testing.T) {
	locks := lockmw.NewLocal()
	handler := httpmw.WithLock(locks, httpmw.By("user", httpmw.Header("X-User")))(http.HandlerFunc(createOrder))

	_, hold, err := locks.Lock(t.Context(), lockmw.Key("user", "42")) // another request holds the lock
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Unlock()

	r := httptest.NewRequest(http.MethodPost, "/orders", nil)
	r.Header.Set("X-User", "42")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusConflict {
		t.Errorf("status %d, want 409", w.Code)
	}
}

func TestLostLock(t *testing.T) {
	locks := lockmw.NewLocal()
	err := lockmw.Do(t.Context(), locks, "item:7", func(ctx context.Context) error {
		locks.Expire("item:7")
		<-ctx.Done() // context.Cause(ctx) wraps lockmw.ErrLost
		return context.Cause(ctx)
	})
	if !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
}

func TestRedisIsDown(t *testing.T) {
	down := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return ctx, nil, &lockmw.Error{Op: "lock", Key: key, Err: lockmw.ErrUnavailable}
	})
	if err := transfer(t.Context(), down, "7"); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

func TestBusyTask(t *testing.T) {
	locks := lockmw.NewLocal()
	byItem := asynqmw.By("item", asynqmw.Payload(func(o Order) string { return o.Item }))
	handler := asynqmw.WithLock(locks, byItem)(asynq.HandlerFunc(fulfil))

	_, hold, err := locks.Lock(t.Context(), lockmw.Key("item", "7")) // another task holds the lock
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Unlock()

	err = handler.ProcessTask(t.Context(), asynq.NewTask("order:fulfil", []byte(`{"Item":"7"}`)))
	if !asynqmw.IsBusy(err) { // asynq would have queued the task again
		t.Errorf("got %v, want a busy lock", err)
	}
}

func TestOnMiniredis(t *testing.T) {
	server := miniredis.RunT(t)
	server.ClockTTL(true) // keys expire as time passes
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	locks, err := lockmw.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if err := transfer(t.Context(), locks, "7"); err != nil {
		t.Error(err)
	}
}

func TestLeaseExpires(t *testing.T) {
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	locks, err := lockmw.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()

	ctx, hold, err := locks.Lock(t.Context(), "item:7", lockmw.WithLease(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	server.FastForward(2 * time.Second) // the lock expires on the server
	<-ctx.Done()                        // the next renewal, a third of the lease later at most, notices the loss
	if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
}
