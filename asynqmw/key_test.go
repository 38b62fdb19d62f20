package asynqmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/lockmw"
)

func TestATaskThatCanHaveNoKeyIsArchived(t *testing.T) {
	text := func(context.Context, *asynq.Task) (string, error) { return "", nil }
	long := func(context.Context, *asynq.Task) (string, error) { return strings.Repeat("x", 2000), nil }
	byPointer := asynqmw.By("item", asynqmw.Payload(func(o *order) string { return o.Item }))
	for name, tt := range map[string]struct {
		key     asynqmw.KeyFunc
		payload string
	}{
		"a payload that is not JSON":   {byItem, "7"},
		"a payload without the field":  {byItem, "{}"},
		"a payload that is null":       {byPointer, " null\n"},
		"a payload not in UTF-8":       {byItem, "{\"Item\":\"7\xff\"}"},
		"a missing header":             {asynqmw.By("item", asynqmw.Header("item")), "{}"},
		"an empty key":                 {text, "{}"},
		"a key longer than is allowed": {long, "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := startQueue(t, quick(), asynqmw.WithLock(lockmw.NewLocal(), tt.key)(never(t)))
			info := q.await(q.enqueue(asynq.NewTask("order:fulfil", []byte(tt.payload))), asynq.TaskStateArchived, asynq.TaskStateRetry)
			if info.State != asynq.TaskStateArchived {
				t.Errorf("the task is %v: %s", info.State, info.LastErr)
			}
		})
	}
}

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

func TestAKeyFunctionThatFailsFailsTheAttempt(t *testing.T) {
	cause := errors.New("database is away")
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
	if want := lockmw.Key("order", "a:b", "eu"); len(keys) != 1 || keys[0] != want {
		t.Errorf("keys %q, want %q", keys, want)
	}
}

// They would all be null to the function, or have the same letter for what is not one.
func TestPayloadsThatJSONWouldTakeForOthersMakeNoKey(t *testing.T) {
	byNumber := asynqmw.By("item", asynqmw.Payload(func(o struct{ N int }) string { return fmt.Sprint("number ", o.N) }))
	for _, tt := range []struct {
		key     asynqmw.KeyFunc
		payload string
	}{
		{byItem, "{\"Item\":\"7\xff\"}"},
		{byItem, "{\"Item\":\"7\xfe\"}"},
		{byNumber, "null"},
	} {
		key, err := tt.key(t.Context(), asynq.NewTask("order:fulfil", []byte(tt.payload)))
		if !errors.Is(err, lockmw.ErrInvalidKey) || !errors.Is(err, asynq.SkipRetry) {
			t.Errorf("%q has key %q, error %v", tt.payload, key, err)
		}
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
