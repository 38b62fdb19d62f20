package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/internal/test/parkedtest"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

func TestTasksThatWaitAreListedAndShown(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	take(t, newClient(t, s), "item:7")
	lockmwOn(t, s, "tasks").want(t, statusNothing, "no task waits for a lock")
	minuteAgo := time.Now().Add(-time.Minute)
	parkedtest.Park(t, s.NewClient(t), "default", "lockmw:{item:7}", minuteAgo, "first", "second")
	parkedtest.Park(t, s.NewClient(t), "low", "lockmw:{item:8}", minuteAgo, "third")

	lockmwOn(t, s, "tasks").want(t, statusDone, "KEY     QUEUE    TASK    PLACE  WAITING  STATE\n",
		"item:7  default  first   1      1m00s    parked\n", "item:7  default  second  2      1m00s    parked\n", "item:8  low      third   1      1m00s    parked\n")
	if r := lockmwOn(t, s, "tasks", "item:8"); strings.Contains(r.out, "item:7") || !strings.Contains(r.out, "third") {
		t.Errorf("of one key it lists\n%s", r.out)
	}
	lockmwOn(t, s, "tasks", "item:9").want(t, statusNothing, "no task waits for item:9")
	lockmwOn(t, s, "show", "item:7").want(t, statusDone, "item:7: 1 holder, 0 waiting", "  PLACE  QUEUE    TASK    WAITING  STATE\n", "  2      default  second  1m00s    parked\n")
	lockmwOn(t, s, "show", "item:8").want(t, statusDone, "item:8: 0 holders, 0 waiting", "third")

	var lock lockRecord
	r := lockmwOn(t, s, "show", "item:7", "--json")
	if err := json.Unmarshal([]byte(r.out), &lock); err != nil || len(lock.Tasks) != 2 {
		t.Fatalf("%v: %s", err, r.out)
	}
	if got := lock.Tasks[1]; got.Key != "item:7" || got.Queue != "default" || got.Task != "second" || got.Place != 2 || got.State != "parked" || got.Waiting < 60 || got.Waiting > 600 {
		t.Errorf("%+v", got)
	}
	if n := strings.Count(lockmwOn(t, s, "tasks", "--json").out, "\n"); n != 3 {
		t.Errorf("%d lines of JSON for 3 tasks", n)
	}
}

func TestShowSaysThatItMayNotReadTasks(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	take(t, newClient(t, s), "item:7")
	if err := s.NewClient(t).Do(t.Context(), "acl", "setuser", "app", "on", ">hush", "~lockmw:*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"LOCKMW_PASSWORD": "hush", "LOCKMW_USER": "app"}
	call{args: []string{"show", "item:7", "--redis", s.Addr()}, env: env}.run(t.Context()).want(t, statusDone, "item:7: 1 hold", "may not read asynq:*")
	call{args: []string{"tasks", "--redis", s.Addr()}, env: env}.run(t.Context()).want(t, statusFailed, "NOPERM")
}

// The search for kept places may take long.
func TestShowReadsTheLockLast(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	take(t, newClient(t, s), "item:7")
	var mu sync.Mutex
	var commands []string
	s.Mini.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		mu.Lock()
		defer mu.Unlock()
		if command == "SCAN" || strings.HasPrefix(command, "EVAL") && slices.Contains(args, "lockmw:{item:7}") {
			commands = append(commands, command)
		}
		return false
	})
	lockmwOn(t, s, "show", "item:7").want(t, statusDone, "item:7: 1 holder")
	mu.Lock()
	defer mu.Unlock()
	if last := len(commands) - 1; last < 1 || commands[last] == "SCAN" || !slices.Contains(commands, "SCAN") {
		t.Errorf("it runs %q", commands)
	}
}

// Anybody may have written it.
func TestShowShowsALockWhoseListOfTasksIsNone(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	take(t, newClient(t, s), "item:7")
	parkedtest.Park(t, s.NewClient(t), "default", "lockmw:{item:7}", time.Now(), "first")
	if err := s.NewClient(t).Set(t.Context(), parked.ListOf("default", "lockmw:{item:7}"), "a string", 0).Err(); err != nil {
		t.Fatal(err)
	}
	lockmwOn(t, s, "show", "item:7").want(t, statusDone, "item:7: 1 holder", "waiting tasks are not shown: WRONGTYPE")
}

// `lockmw top --json | jq .waiting` must not print 0 while Redis does not answer.
func TestTopCountsNothingThatItCouldNotRead(t *testing.T) {
	var out strings.Builder
	top := &topping{command: &command{out: bufio.NewWriter(&out), conn: &connection{}}}
	e := &eyes{match: func(*lockRecord) bool { return true }, now: time.Now, hide: strings.Clone}
	sight := e.sightOf(func(yield func(lockmw.Status, error) bool) { yield(lockmw.Status{}, lockmw.ErrUnavailable) }, topOrders[0].compare, memory{})
	err := top.printSight(sight, nil, false)
	if err != nil || !strings.Contains(out.String(), `"held":null,"waiting":null,`) || !strings.Contains(out.String(), `"error":"`) {
		t.Errorf("top prints %s, %v", out.String(), err)
	}
}

// A program that reads the JSON must not take the first tasks for all.
func TestACutListSaysHowManyAreMissing(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	take(t, newClient(t, s), "item:7")
	tasks := make([]string, parked.MaxTasks+2)
	for i := range tasks {
		tasks[i] = fmt.Sprint("task-", i)
	}
	parkedtest.Park(t, s.NewClient(t), "default", "lockmw:{item:7}", time.Now(), tasks...)
	lockmwOn(t, s, "show", "item:7", "--json").want(t, statusDone, `"more_tasks":2`)

	var out strings.Builder
	top := &topping{command: &command{out: bufio.NewWriter(&out), conn: &connection{}}}
	e := &eyes{match: func(*lockRecord) bool { return true }, now: time.Now, hide: strings.Clone}
	sight := e.sightOf(func(yield func(lockmw.Status, error) bool) {
		for i := range topRows + 3 {
			if !yield(lockmw.Status{Key: fmt.Sprint(i)}, nil) {
				return
			}
		}
	}, topOrders[0].compare, memory{})
	if err := top.printSight(sight, nil, false); err != nil || !strings.Contains(out.String(), `"more":3`) {
		t.Errorf("top prints %s, %v", out.String(), err)
	}
}
