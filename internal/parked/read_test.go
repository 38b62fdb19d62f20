package parked_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/internal/test/parkedtest"
	"github.com/lockmw/go/internal/test/redistest"
)

// words are what a Reader finds, as text.
func words(tasks []parked.Task) (all []string) {
	for _, t := range tasks {
		all = append(all, fmt.Sprintf("%s %s %s %d %s", t.Key, t.Queue, t.ID, t.Place, t.State))
	}
	return all
}

func everything(t *testing.T, r *parked.Reader) (tasks []parked.Task) {
	t.Helper()
	for list, err := range r.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, list.Tasks...)
	}
	return tasks
}

func TestTasksAreReadByQueueAndPlace(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		rdb, since := s.NewClient(t), time.UnixMicro(1_795_358_195_164_256)
		parkedtest.Park(t, rdb, "low", "lockmw:{item:7}", since, "c")
		parkedtest.Park(t, rdb, "default", "lockmw:{item:7}", since, "a", "b")
		parkedtest.Park(t, rdb, "default", "lockmw:{item:%7B8%7D}", since, "d")
		parkedtest.Park(t, rdb, "default", "shop:{item:7}", since, "another prefix")
		r := parked.NewReader(rdb, "lockmw")
		list, err := r.Tasks(t.Context(), "item:7")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := words(list.Tasks), []string{"item:7 default a 1 parked", "item:7 default b 2 parked", "item:7 low c 1 parked"}; !slices.Equal(got, want) || list.More != 0 {
			t.Errorf("%q and %d more, want %q", got, list.More, want)
		}
		if got := list.Tasks[0].Since; !got.Equal(since) {
			t.Errorf("it waits since %v, want %v", got, since)
		}
		want := []string{"item:7 default a 1 parked", "item:7 default b 2 parked", "item:7 low c 1 parked", "item:{8} default d 1 parked"}
		got := words(everything(t, r))
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func TestAReaderReadsAsMuchOfAListAsItShows(t *testing.T) {
	t.Parallel()
	rdb := redistest.Mini(t).NewClient(t)
	ids := make([]string, parked.MaxTasks+7)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	parkedtest.Park(t, rdb, "default", "lockmw:{item:7}", time.Now(), ids...)
	list, err := parked.NewReader(rdb, "lockmw").Tasks(t.Context(), "item:7")
	if err != nil || len(list.Tasks) != parked.MaxTasks || list.More != 7 {
		t.Errorf("%d tasks and %d more, %v", len(list.Tasks), list.More, err)
	}
}

// sent notes commands.
type sent struct{ names *[]string }

func (sent) DialHook(next redis.DialHook) redis.DialHook { return next }
func (s sent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		*s.names = append(*s.names, cmd.Name())
		return next(ctx, cmd)
	}
}
func (s sent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			*s.names = append(*s.names, cmd.Name())
		}
		return next(ctx, cmds)
	}
}

func TestWithoutAsynqAReaderAsksOnceInAWhile(t *testing.T) {
	t.Parallel()
	rdb := redistest.Mini(t).NewClient(t)
	var names []string
	rdb.AddHook(sent{&names})
	r := parked.NewReader(rdb, "lockmw")
	for range 3 {
		if list, err := r.Tasks(t.Context(), "item:7"); err != nil || len(list.Tasks) > 0 {
			t.Errorf("%+v, %v", list, err)
		}
	}
	if got := strings.Join(names, " "); strings.Count(got, "smembers") != 1 || strings.Contains(got, "eval") {
		t.Errorf("it sent %s", got)
	}
}

func TestAReaderReportsWhatItMayNotRead(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	if err := s.NewClient(t).Do(t.Context(), "acl", "setuser", "app", "on", ">hush", "~lockmw:*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	r := parked.NewReader(s.NewClient(t, func(o *redis.Options) { o.Username, o.Password = "app", "hush" }), "lockmw")
	if _, err := r.Tasks(t.Context(), "item:7"); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("the error is %v", err)
	}
	for _, err := range r.All(t.Context()) {
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestTheRightsThatTheCommandNamesSuffice(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb := s.NewClient(t)
	parkedtest.Park(t, rdb, "default", "lockmw:{item:7}", time.Now(), "a")
	rights := []any{"acl", "setuser", "app", "on", ">hush", "~asynq:*", "+smembers", "+sscan", "+eval", "+time", "+zrange", "+zcard", "+zscore", "+hmget"}
	if err := rdb.Do(t.Context(), rights...).Err(); err != nil {
		t.Fatal(err)
	}
	r := parked.NewReader(s.NewClient(t, func(o *redis.Options) { o.Username, o.Password, o.DisableIdentity = "app", "hush", true }), "lockmw")
	if list, err := r.Tasks(t.Context(), "item:7"); err != nil || len(list.Tasks) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if tasks := everything(t, r); len(tasks) != 1 {
		t.Errorf("%+v", tasks)
	}
}

// reads compares what a Reader says of the tasks that wait for the lock.
func (tb *table) reads(want ...string) {
	tb.t.Helper()
	tb.do("SADD", parked.AllQueues, "default") // as asynq does
	list, err := parked.NewReader(tb.rdb, "lockmw").Tasks(tb.t.Context(), "item:7")
	var got []string
	for _, task := range list.Tasks {
		got = append(got, fmt.Sprintf("%d %s %s", task.Place, task.ID, task.State))
	}
	if err != nil || list.More != 0 || !slices.Equal(got, want) {
		tb.t.Errorf("waiting: %q and %d more, %v, want %q", got, list.More, err, want)
	}
}

func TestAReaderSaysWhatBecomesOfParkedTasks(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b")
		tb.archives("c", 0)
		tb.reads("1 a parked", "2 b parked", "3 c parked")
		tb.wakes(1, parked.Anyway, 3, "a")
		tb.reads("1 a woken", "2 b parked", "3 c parked")
		tb.starts("a", "b")
		tb.staysFresh("a")
		tb.ages("b")
		tb.reads("1 a woken", "2 c parked")
		tb.asks(tb.waits("a"), parked.WaitInWorker, true)
		tb.asks(tb.busy("b"), parked.Park, false)
		tb.staysFresh("b")
		tb.reads("1 a waiting", "2 b parked", "3 c parked")

		// It gets the lock, and the others fail, are completed or deleted.
		tb.ages("a")
		tb.reads("1 b parked", "2 c parked")
		tb.task("b", "retry", 3e9)
		tb.reads("1 c parked")
		tb.do("DEL", key("c"))
		tb.reads()
	})
}

// A page about one key does not wait because the server does not answer another one.
func TestAReaderThatWaitsForAnAnswerKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	rdb := redistest.Mini(t).NewClient(t)
	parkedtest.Park(t, rdb, "default", "lockmw:{item:7}", time.Now(), "a")
	var calls atomic.Int32
	asked, answer := make(chan struct{}), make(chan struct{})
	rdb.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		if cmds[0].Name() == "smembers" && calls.Add(1) == 1 {
			close(asked)
			<-answer
		}
		return send()
	}))
	r, first := parked.NewReader(rdb, "lockmw"), make(chan error, 1)
	go func() {
		_, err := r.Tasks(t.Context(), "item:7")
		first <- err
	}()
	<-asked
	if list, err := r.Tasks(t.Context(), "item:7"); err != nil || len(list.Tasks) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	close(answer)
	if err := <-first; err != nil {
		t.Error(err)
	}
}
