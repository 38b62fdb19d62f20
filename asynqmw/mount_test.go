package asynqmw_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

func TestMistakesPanicWhereTheMiddlewareIsMounted(t *testing.T) {
	local, client := lockmw.NewLocal(), new(asynq.Client)
	lock := func(opts ...asynqmw.Option) func() {
		return func() { asynqmw.WithLock(local, byItem, opts...) }
	}
	placeKept := func(l lockmw.Locker) func() {
		return func() { asynqmw.WithLock(l, byItem, asynqmw.WithPlaceKept(time.Minute)) }
	}
	for _, tt := range []struct {
		name  string
		mount func()
		says  string
	}{
		{"no Locker", func() { asynqmw.WithLock(nil, byItem) }, "Locker is nil"},
		{"a Client that New did not return", func() { asynqmw.WithLock((*lockmw.Client)(nil), byItem) }, "Locker is nil"},
		{"one ticket for all", lock(lockmw.WithPlace("a", time.Minute)), "WithPlaceKept"},
		{"a place kept for what does not come back", lock(asynqmw.WithPlaceKept(time.Minute), asynqmw.WithOnBusy(asynqmw.Drop)), "WithOnBusy(Drop)"},
		{"no key", func() { asynqmw.WithLock(local, nil) }, "key function is nil"},
		{"no handler", func() { asynqmw.WithLock(local, byItem)(nil) }, "handler to lock is nil"},
		{"a provider that is a nil pointer", func() { asynqmw.Trace((*sdktrace.TracerProvider)(nil)) }, "tracer provider is a nil pointer"},
		{"no option of Trace", func() { asynqmw.Trace(nil, nil) }, "option 1 is nil"},
		{"no handler to trace", func() { asynqmw.Trace(nil)(nil) }, "handler to trace is nil"},
		{"a nil option", lock(nil), "option 1"},
		{"a negative wait", lock(lockmw.WithWait(-time.Second)), "WithWait"},
		{"a weight of a lock", lock(lockmw.WithWeight(2)), "WithWeight needs a semaphore"},
		{"an unknown action", lock(asynqmw.WithOnBusy(9)), "BusyAction(9)"},
		{"a negative delay", lock(asynqmw.WithRequeueDelay(-1, 1)), "WithRequeueDelay"},
		{"delays the wrong way round", lock(asynqmw.WithRequeueDelay(2, 1)), "WithRequeueDelay"},
		{"no requeue at all", lock(asynqmw.WithMaxRequeues(0)), "WithMaxRequeues(0)"},
		{"a limit of requeues without any", lock(asynqmw.WithMaxRequeues(1), asynqmw.WithOnBusy(asynqmw.Drop)), "WithOnBusy(Drop)"},
		{"a rescue without a client", lock(asynqmw.WithRescue(nil)), "WithRescue(nil)"},
		{"a rescue with a nil option", lock(asynqmw.WithRescue(client, nil)), "nil"},
		{"a rescue with an ID", lock(asynqmw.WithRescue(client, asynq.TaskID("a"))), "TaskID"},
		{"a unique rescue", lock(asynqmw.WithRescue(client, asynq.Unique(time.Hour))), "Unique"},
		{"a rescue of what is not to be queued", lock(asynqmw.WithRescue(client), asynqmw.WithOnBusy(asynqmw.Fail)), "WithOnBusy(Fail)"},
		{"a rescue into no queue", lock(asynqmw.WithRescue(client, asynq.Queue(" "))), "Queue"},
		{"a rescue into no group", lock(asynqmw.WithRescue(client, asynq.Group(""))), "Group"},
		{"a rescue with a negative timeout", lock(asynqmw.WithRescue(client, asynq.Timeout(-time.Second))), "Timeout(-1s)"},
		{"a rescue with a timeout that asynq takes for none", lock(asynqmw.WithRescue(client, asynq.Timeout(999*time.Millisecond))), "Timeout(999ms)"},
		{"a rescue that is too late", lock(asynqmw.WithRescue(client, asynq.Deadline(time.Now().Add(-time.Second)))), "Deadline"},
		{"a delay of what is not to be queued", lock(asynqmw.WithRequeueDelay(0, 0), asynqmw.WithOnBusy(asynqmw.Archive)), "WithOnBusy(Archive)"},
		{"a place kept by a plain lock", placeKept(new(lockmw.Client)), "fairlock"},
		{"a place kept by a read-write lock", placeKept(new(rwlock.Locker)), "fairlock"},
		{"no Redis of the queues", lock(asynqmw.WithQueueRedis(nil)), "WithQueueRedis(nil)"},
		{"a Redis of the queues for tasks that do not come back", lock(asynqmw.WithQueueRedis(new(redis.Client)), asynqmw.WithOnBusy(asynqmw.Drop)), "WithQueueRedis"},
		{"no place kept", lock(asynqmw.WithPlaceKept(0)), "WithPlaceKept"},
		{"a place kept too long", lock(asynqmw.WithPlaceKept(25 * time.Hour)), "WithPlaceKept"},
		{"a place kept for less than the requeue delay", lock(asynqmw.WithPlaceKept(10 * time.Second)), "15s"},
		{"By without a kind", func() { asynqmw.By("", asynqmw.Header("a")) }, "kind"},
		{"By without parts", func() { asynqmw.By("item") }, "no parts"},
		{"By with a nil part", func() { asynqmw.By("item", nil) }, "part 1"},
		{"By with a kind that no key has room for", func() { asynqmw.By(strings.Repeat("k", 1023), asynqmw.Header("a")) }, "1024 bytes"},
		{"Payload of nothing", func() { asynqmw.Payload[order](nil) }, "Payload"},
		{"a nameless Header", func() { asynqmw.Header("") }, "Header"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			usertest.WantPanic(t, "asynqmw: ", tt.says, tt.mount)
		})
	}
}

func TestValidOptionsAreAccepted(t *testing.T) {
	local, client := lockmw.NewLocal(), new(asynq.Client)
	for _, opts := range [][]asynqmw.Option{
		{asynqmw.WithRescue(client, asynq.Queue("rescued"), asynq.MaxRetry(3), asynq.Timeout(0), asynq.Deadline(time.Now().Add(time.Hour)))},
		{asynqmw.WithRescue(client, asynq.Timeout(time.Second), asynq.Retention(time.Hour), asynq.ProcessIn(0))},
		{asynqmw.WithPlaceKept(time.Minute)},
		{asynqmw.WithOnBusy(asynqmw.Fail), asynqmw.WithPlaceKept(time.Minute)},
		{asynqmw.WithOnBusy(asynqmw.Requeue), asynqmw.WithRequeueDelay(0, 0)},
	} {
		asynqmw.WithLock(local, byItem, opts...)
	}
}
