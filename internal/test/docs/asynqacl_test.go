package docs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
)

// silent is a logger for asynq.
type silent struct{}

func (silent) Debug(...any) {}
func (silent) Info(...any)  {}
func (silent) Warn(...any)  {}
func (silent) Error(...any) {}
func (silent) Fatal(...any) {}

func TestTheDoctorNamesMissingRulesOfAsynq(t *testing.T) {
	t.Parallel()
	everywhere, _, forAsynq := aclLines(t)
	s := newACLServer(t, redistest.Redis(t))
	says := func(t *testing.T, rules []string) (named []string, healthy bool) {
		rdb := s.user(t, t.Name(), rules)
		for f := range doctor.Examine(t.Context(), rdb, doctor.Options{Prefix: "lockmw", Lease: 30 * time.Second, Asynq: true}) {
			switch {
			case f.Check == "messages":
				return named, healthy
			case f.Check == "asynq" && f.Verdict == doctor.OK:
				healthy = true
			case f.Check == "asynq" && !strings.Contains(f.Saw, "Inspector and"):
				for word := range strings.FieldsSeq(f.Remedy) {
					named = append(named, strings.Trim(word, "'"))
				}
			}
		}
		return named, healthy
	}
	if named, healthy := says(t, slices.Concat(everywhere, forAsynq)); !healthy || len(named) > 0 {
		t.Errorf("with the whole line the doctor misses %q", named)
	}
	for i, rule := range forAsynq {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			s.needs(t, rule)
			named, _ := says(t, slices.Concat(everywhere, forAsynq[:i], forAsynq[i+1:]))
			if !slices.Contains(named, rule) {
				t.Errorf("the doctor names %q", named)
			}
		})
	}
}

// With the two lines, asynq is denied nothing and calls each command of its line.
func TestAsynqNeedsExactlyItsLine(t *testing.T) {
	suite.NeedsFull(t, "asynq takes seconds for a group")
	t.Parallel()
	everywhere, _, forAsynq := aclLines(t)
	s := newACLServer(t, redistest.Redis(t, noteAll...))
	redistest.NeedsByScore(t, s.admin)
	s.allow(t, "orders", slices.Concat(everywhere, forAsynq))
	opt := asynq.RedisClientOpt{Addr: s.Addr(), Username: "orders", Password: password}
	haveWaited := func() bool { // one is parked, and one was archived and put back
		calls := s.admin.Info(t.Context(), "commandstats").Val()
		return strings.Contains(calls, "cmdstat_rpush:") && strings.Contains(calls, "cmdstat_decr:")
	}
	everyTask(t, opt, s.NewClient(t, func(o *redis.Options) { o.Username, o.Password = "orders", password }), haveWaited)
	for _, what := range s.denied(t, "orders") {
		t.Errorf("denied: %s", what)
	}
	calls := s.admin.Info(t.Context(), "commandstats").Val()
	for _, rule := range forAsynq {
		if command, isCommand := strings.CutPrefix(rule, "+"); isCommand && !strings.Contains(calls, "cmdstat_"+command+":") {
			t.Errorf("%s is not used", rule)
		}
	}
}

// everyTask makes asynq do everything that it does with tasks, and asynqmw park them.
func everyTask(t *testing.T, opt asynq.RedisClientOpt, rdb *redis.Client, haveWaited func() bool) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	locks, client := usertest.ClientOf(t, rdb), asynq.NewClient(opt)
	defer client.Close()
	done := make(chan string, 100)
	mux := asynq.NewServeMux()
	plain := asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		done <- task.Type()
		switch task.Type() {
		case "result":
			_, err := task.ResultWriter().Write([]byte("ok"))
			return err
		case "fail":
			return errors.New("it failed")
		}
		return nil
	})
	for _, name := range []string{"result", "fail", "later", "unique", "grouped", "scheduled"} {
		mux.Handle(name, plain)
	}
	item := func(context.Context, *asynq.Task) (string, error) { return "item:7", nil }
	mux.Handle("locked", asynqmw.WithLock(locks, item, asynqmw.WithRescue(client))(plain))
	srv := asynq.NewServer(opt, asynqmw.Configure(asynq.Config{
		Logger: silent{}, Concurrency: 4, DelayedTaskCheckInterval: 50 * time.Millisecond, JanitorInterval: 50 * time.Millisecond, GroupGracePeriod: time.Second,
		GroupAggregator: asynq.GroupAggregatorFunc(func(string, []*asynq.Task) *asynq.Task { return asynq.NewTask("grouped", nil) }),
	}))
	if err := srv.Start(mux); err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	scheduler := asynq.NewScheduler(opt, &asynq.SchedulerOpts{Logger: silent{}})
	if _, err := scheduler.Register("@every 1s", asynq.NewTask("scheduled", nil)); err != nil {
		t.Fatal(err)
	}
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	defer scheduler.Shutdown()
	_, hold, err := locks.Lock(ctx, "item:7")
	if err != nil {
		t.Fatal(err)
	}
	awaited := map[string]int{"result": 1, "fail": 2, "later": 1, "unique": 1, "grouped": 1, "scheduled": 1, "locked": 2}
	for _, task := range []struct {
		name string
		opts []asynq.Option
	}{
		{"result", []asynq.Option{asynq.Retention(time.Second)}},
		{"fail", []asynq.Option{asynq.MaxRetry(0)}},
		{"fail", []asynq.Option{asynq.MaxRetry(5)}},
		{"later", []asynq.Option{asynq.ProcessIn(10 * time.Millisecond)}},
		{"unique", []asynq.Option{asynq.Unique(time.Minute)}},
		{"group", []asynq.Option{asynq.Group("all"), asynq.Unique(time.Minute)}},
		{"locked", nil},
		{"locked", []asynq.Option{asynq.MaxRetry(0)}},
	} {
		if _, err := client.EnqueueContext(ctx, asynq.NewTask(task.name, nil), task.opts...); err != nil {
			t.Fatalf("%s: %v", task.name, err)
		}
	}
	for len(awaited) > 0 {
		select {
		case name := <-done:
			if awaited[name]--; awaited[name] <= 0 {
				delete(awaited, name)
			}
		case <-ctx.Done():
			t.Fatalf("tasks are missing: %v", awaited)
		}
		if hold != nil && len(awaited) <= 2 {
			usertest.Eventually(t, "tasks have waited for the lock", time.Minute, haveWaited)
			if err := hold.Unlock(); err != nil {
				t.Fatal(err)
			}
			hold = nil
		}
	}
}
