package asynqmw_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
)

// countingRedis counts the scripts that asynq runs.
type countingRedis struct {
	pipedRedis
	scripts *atomic.Int32
}

func (r countingRedis) MakeRedisClient() any {
	rdb := r.s.NewClient(r.t)
	rdb.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		if strings.HasPrefix(cmds[0].Name(), "eval") {
			r.scripts.Add(1)
		}
		return send()
	}))
	return rdb
}

func TestAnIdleServerAsksItsQueuesAboutAsOftenAsAsynqAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		alone := asynq.Config{Logger: silent{}, DelayedTaskCheckInterval: 24 * time.Hour, Queues: map[string]int{"default": 1, "low": 1, "high": 1}}
		count := func(cfg asynq.Config) int32 {
			counted := countingRedis{opt.(pipedRedis), new(atomic.Int32)}
			defer startServer(t, counted, cfg, never(t))()
			<-time.After(10 * time.Second) // it polls more often at first
			before := counted.scripts.Load()
			<-time.After(time.Minute)
			return counted.scripts.Load() - before
		}
		plain, ours := count(alone), count(asynqmw.Configure(alone))
		if ours > 2*plain || plain > 400 {
			t.Errorf("%d scripts in a minute, and %d with asynq alone", ours, plain)
		}
	})
}

// A woken task does not wait for the next poll of its idle server.
func TestATaskThatIsWokenEndsThePauseOfItsServer(t *testing.T) {
	inBubble(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := opt.(pipedRedis).s
		q, ran, holder, rdb := newQueue(t, opt), make(chan time.Time, 1), usertest.Client(t, s), s.NewClient(t)
		woken := make(chan time.Time, 1000)
		rdb.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
			if isInQueue(cmds) && slices.Contains(cmds[0].Args(), any("anyway")) {
				woken <- time.Now()
			}
			return send()
		}))
		startServer(t, opt, parked(4), asynqmw.WithLock(usertest.ClientOf(t, rdb), byItem)(noteWhen(ran)))
		for range 5 {
			release := usertest.Occupy(t, holder, "item:7")
			q.awaitParked(q.fulfil("7"))
			<-time.After(8 * time.Second)
			for len(woken) > 0 {
				<-woken
			}
			start := time.Now()
			release()
			end := receive(t, ran)
			if took := end.Sub(start); took > 700*time.Millisecond {
				t.Errorf("a parked task ran %v after the release, want half a second", took)
			}
			if len(woken) == 0 { // the task waited in its worker
				continue
			}
			if took := end.Sub(receive(t, woken)); took > 30*time.Millisecond {
				t.Errorf("it ran %v after it was woken", took)
			}
		}
	})
}

// A server that was busy a moment ago polls again soon.
func TestATaskThatFollowsAnotherDoesNotWaitLong(t *testing.T) {
	inBubble(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := opt.(pipedRedis).s
		q, ran := newQueue(t, opt), make(chan time.Time, 1)
		startServer(t, opt, parked(4), asynqmw.WithLock(usertest.Client(t, s), byItem)(noteWhen(ran)))
		q.fulfil("7")
		receive(t, ran)
		for range 20 {
			<-time.After(100 * time.Millisecond)
			start := time.Now()
			q.fulfil("7")
			if took := receive(t, ran).Sub(start); took > 100*time.Millisecond {
				t.Errorf("a task ran after %v, 100 ms after another", took)
			}
		}
	})
}

func TestShutdownEndsThePauseOfAnIdleServer(t *testing.T) {
	inBubble(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		for range 5 {
			shutdown := startServer(t, opt, parked(1), never(t))
			<-time.After(time.Minute)
			start := time.Now()
			shutdown()
			if took := time.Since(start); took > 50*time.Millisecond {
				t.Errorf("it took %v", took)
			}
		}
	})
}

// A recorder is a Logger that records its lines.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) add(level string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, _ := args[0].(string)
	r.lines = append(r.lines, level+" "+text)
}

func (r *recorder) Debug(args ...any) { r.add("debug", args) }
func (r *recorder) Info(args ...any)  { r.add("info", args) }
func (r *recorder) Warn(args ...any)  { r.add("warn", args) }
func (r *recorder) Error(args ...any) { r.add("error", args) }
func (r *recorder) Fatal(args ...any) { r.add("fatal", args) }

func TestAsynqLogsTheSameAfterConfigure(t *testing.T) {
	for _, level := range []asynq.LogLevel{0, asynq.DebugLevel, asynq.InfoLevel, asynq.WarnLevel} {
		t.Run(fmt.Sprint(int(level)), func(t *testing.T) {
			inBubble(t, func(t *testing.T, opt asynq.RedisConnOpt) {
				logged := func(configure func(asynq.Config) asynq.Config) []string {
					r := &recorder{}
					shutdown := startServer(t, opt, configure(asynq.Config{Concurrency: 1, LogLevel: level, Logger: r}), never(t))
					<-time.After(10 * time.Second)
					shutdown()
					slices.Sort(r.lines)
					return slices.Compact(r.lines)
				}
				alone := func(cfg asynq.Config) asynq.Config { return cfg }
				if want, got := logged(alone), logged(asynqmw.Configure); !slices.Equal(got, want) {
					t.Errorf("it logs %q, and asynq alone %q", got, want)
				}
			})
		})
	}
}

func TestAsynqWritesTheSameLinesWithoutALogger(t *testing.T) {
	written := func(configure func(asynq.Config) asynq.Config) string {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		before := os.Stderr
		os.Stderr = w
		cfg := configure(asynq.Config{Concurrency: 1})
		server := asynq.NewServer(startRedis(t), cfg)
		os.Stderr = before
		if err := server.Start(never(t)); err != nil {
			t.Fatal(err)
		}
		server.Shutdown()
		w.Close()
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6}`).ReplaceAllString(string(text), "<now>")
	}
	want := written(func(cfg asynq.Config) asynq.Config { return cfg })
	if got := written(asynqmw.Configure); got != want || !strings.Contains(got, "<now>") {
		t.Errorf("the lines are\n%s\nand with asynq alone\n%s", got, want)
	}
}

func TestAChosenPauseIsKept(t *testing.T) {
	r := &recorder{}
	cfg := asynqmw.Configure(asynq.Config{TaskCheckInterval: time.Minute, Logger: r, LogLevel: asynq.WarnLevel})
	if cfg.TaskCheckInterval != time.Minute || cfg.Logger != r || cfg.LogLevel != asynq.WarnLevel {
		t.Errorf("%v, %T, %v", cfg.TaskCheckInterval, cfg.Logger, cfg.LogLevel)
	}
}
