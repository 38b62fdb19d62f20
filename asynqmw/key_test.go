package asynqmw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/lockmw"
)

func TestAnEmptyKeyIsNotShownToTheLocker(t *testing.T) {
	l := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		t.Errorf("called with %q", key)
		return ctx, nil, lockmw.ErrBusy
	})
	key := func(context.Context, *asynq.Task) (string, error) { return "", nil }
	err := asynqmw.WithLock(l, key)(never(t)).ProcessTask(t.Context(), fulfilItem("7"))
	if !errors.Is(err, lockmw.ErrInvalidKey) || !errors.Is(err, asynq.SkipRetry) {
		t.Errorf("got %v", err)
	}
}

// Also outside WithLock, in a handler of your own.
func TestTheErrorOfAnInvalidPayloadArchivesTheTask(t *testing.T) {
	part := asynqmw.Payload(func(item string) string { return item })
	for _, payload := range []string{"", "7", "null", "\"\xff\""} {
		_, err := part(t.Context(), asynq.NewTask("item:fulfil", []byte(payload)))
		if !errors.Is(err, asynq.SkipRetry) || !errors.Is(err, lockmw.ErrInvalidKey) {
			t.Errorf("payload %q: %v", payload, err)
		}
	}
}

func TestAKeyFunctionThatFailsFailsTheAttempt(t *testing.T) {
	cause := errors.New("database is down")
	key := func(context.Context, *asynq.Task) (string, error) { return "", cause }
	err := asynqmw.WithLock(lockmw.NewLocal(), key)(never(t)).ProcessTask(t.Context(), fulfilItem("7"))
	if e, ok := errors.AsType[*lockmw.Error](err); !ok || e.Op != "key" || !errors.Is(err, cause) || errors.Is(err, asynq.SkipRetry) {
		t.Errorf("got %v", err)
	}
}

func TestErrNoLockRunsTheTaskWithoutALock(t *testing.T) {
	local := lockmw.NewLocal()
	ran := false
	key := func(context.Context, *asynq.Task) (string, error) {
		return "", fmt.Errorf("free: %w", lockmw.ErrNoLock)
	}
	h := asynqmw.WithLock(local, key)(handle(func(ctx context.Context) error {
		_, held := lockmw.FromContext(ctx)
		ran = !held
		return nil
	}))
	if err := h.ProcessTask(t.Context(), fulfilItem("7")); err != nil || !ran {
		t.Errorf("ran without a lock: %t, error %v", ran, err)
	}
}

func TestPartsMakeTheKeyThatRequestsHave(t *testing.T) {
	var keys []string
	local := lockmw.NewLocal()
	l := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		keys = append(keys, key)
		return local.Lock(ctx, key, opts...)
	})
	h := asynqmw.WithLock(l, asynqmw.By("order", asynqmw.Payload(func(o order) string { return o.Item }), asynqmw.Header("region")))(handle(func(context.Context) error { return nil }))
	task := asynq.NewTaskWithHeaders("order:fulfil", []byte(`{"Item":"a:b"}`), map[string]string{"region": "eu"})
	if err := h.ProcessTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if err := asynqmw.WithLock(l, asynqmw.Const("report", "nightly"))(handle(func(context.Context) error { return nil })).ProcessTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if want := []string{lockmw.Key("order", "a:b", "eu"), "report:nightly"}; !slices.Equal(keys, want) {
		t.Errorf("keys %q, want %q", keys, want)
	}
}

func TestAHeaderThatIsEmptyIsNotSaidToBeMissing(t *testing.T) {
	key := asynqmw.By("tenant", asynqmw.Header("Tenant"))
	for says, headers := range map[string]map[string]string{
		"has no header Tenant":   {"tenant": "7"},
		"header Tenant is empty": {"Tenant": ""},
	} {
		_, err := key(t.Context(), asynq.NewTaskWithHeaders("order:fulfil", nil, headers))
		if !errors.Is(err, lockmw.ErrInvalidKey) || !strings.Contains(err.Error(), says) {
			t.Errorf("headers %v: %v, want that it %s", headers, err, says)
		}
	}
}
