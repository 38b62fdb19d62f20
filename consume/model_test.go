package consume_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lockmw/go/consume"
	"github.com/lockmw/go/lockmw"
)

// A job is a message that says how it has to be handled.
type job struct {
	key       string
	partition int
	number    int
	takes     time.Duration
	failures  int // of the first attempts
	stubborn  bool
}

// A record checks what happens to jobs, while it happens.
type record struct {
	mu        sync.Mutex
	errors    []string
	running   map[string]*job // by key
	failed    map[*job]int
	succeeded map[*job]bool
	last      map[string]int // the job of a partition and key that was begun last
	done      [2][]*job
	closed    [2]bool
	reporting [2]bool
	inOrder   bool
}

func (r *record) errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *record) begin(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.running[j.key]; other != nil {
		r.errorf("%+v runs next to %+v", j, other)
	}
	r.running[j.key] = j
	line := fmt.Sprint(j.partition, j.key)
	if last, ok := r.last[line]; ok && j.number < last {
		r.errorf("%+v was overtaken by %d", j, last)
	}
	r.last[line] = j.number
	if r.closed[j.partition] || r.succeeded[j] {
		r.errorf("%+v was begun late", j)
	}
}

func (r *record) end(j *job, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, j.key)
	if r.closed[j.partition] {
		r.errorf("%+v ended after Close", j)
	}
	if err == nil && r.failed[j] < j.failures {
		r.failed[j]++
		return errors.New("not yet")
	}
	r.succeeded[j] = err == nil
	return err
}

func (r *record) handle(ctx context.Context, j *job) error {
	r.begin(j)
	if _, err := lockmw.Held(ctx, j.key); err != nil {
		return r.end(j, err)
	}
	if j.stubborn {
		time.Sleep(j.takes)
		return r.end(j, nil)
	}
	select {
	case <-time.After(j.takes):
		return r.end(j, nil)
	case <-ctx.Done():
		return r.end(j, context.Cause(ctx))
	}
}

func (r *record) report(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reporting[j.partition] && r.inOrder {
		r.errorf("%+v is reported during another report", j)
	}
	r.reporting[j.partition] = true
	defer func() { r.reporting[j.partition] = false }()
	if !r.succeeded[j] || r.closed[j.partition] || slices.Contains(r.done[j.partition], j) {
		r.errorf("%+v is done", j)
	}
	r.done[j.partition] = append(r.done[j.partition], j)
	r.mu.Unlock()
	time.Sleep(time.Millisecond) // a second report could begin
	r.mu.Lock()
}

// Two partitions share keys. They may belong to two processes.
func TestRandomMessagesKeepOrderExclusionAndBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hidden := struct{ testing.TB }{t} // a bubble has no deadline, and panics when it is asked for it
		rapid.Check(hidden, func(t *rapid.T) {
			limit := rapid.IntRange(1, 8).Draw(t, "limit")
			inOrder := rapid.Bool().Draw(t, "in order")
			r := &record{inOrder: inOrder, running: make(map[string]*job), failed: make(map[*job]int), succeeded: make(map[*job]bool), last: make(map[string]int)}
			q := consume.New(quiet{lockmw.NewLocal()}, func(_ context.Context, j *job) (string, error) { return j.key, nil }, r.handle, nil,
				consume.WithLimit(limit), consume.WithRetry(time.Millisecond, 20*time.Millisecond))
			open := q.Open
			if inOrder {
				open = q.OpenInOrder
			}
			var all sync.WaitGroup
			for i := range r.done {
				jobs := drawJobs(t, i)
				ends := ms(0, 400).Draw(t, "end")
				patience := ms(0, 40).Draw(t, "patience")
				p := open(r.report)
				accepted := make(chan []*job, 1)
				all.Go(func() { accepted <- r.submit(p, i, limit, jobs) })
				all.Go(func() {
					time.Sleep(ends)
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					notDone := p.Close(ctx)
					r.mu.Lock()
					r.closed[i] = true
					r.mu.Unlock()
					r.judge(i, inOrder, <-accepted, notDone)
				})
			}
			all.Wait()
			if len(r.errors) > 0 {
				t.Fatal(r.errors)
			}
		})
	})
}

func ms(from, to int) *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.IntRange(from, to), func(n int) time.Duration { return time.Duration(n)*time.Millisecond + 100*time.Microsecond })
}

func drawJobs(t *rapid.T, partition int) (jobs []*job) {
	for n := range rapid.IntRange(0, 30).Draw(t, "messages") {
		jobs = append(jobs, &job{
			key: rapid.SampledFrom([]string{"order:1", "order:2", "order:3"}).Draw(t, "key"), partition: partition, number: n,
			takes: ms(0, 30).Draw(t, "takes"), failures: max(0, rapid.IntRange(-3, 2).Draw(t, "failures")), stubborn: rapid.Bool().Draw(t, "stubborn"),
		})
	}
	return jobs
}

// submit returns the jobs that were accepted.
func (r *record) submit(p *consume.Partition[*job], partition, limit int, jobs []*job) (accepted []*job) {
	for _, j := range jobs {
		if err := p.Submit(context.Background(), j); err != nil {
			if !errors.Is(err, consume.ErrClosed) {
				panic(err)
			}
			break
		}
		accepted = append(accepted, j)
		r.mu.Lock()
		if n := len(accepted) - len(r.done[partition]); n > limit {
			r.errorf("%d messages in flight, limit %d", n, limit)
		}
		r.mu.Unlock()
	}
	return accepted
}

// judge checks the end of a partition.
func (r *record) judge(partition int, inOrder bool, accepted, notDone []*job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := r.done[partition]
	if inOrder && !slices.Equal(done, accepted[:len(done)]) {
		r.errorf("reported out of order: %v", numbers(done))
	}
	var want []*job
	for _, j := range accepted {
		if !r.succeeded[j] {
			want = append(want, j)
		}
		if reported := slices.Contains(done, j); r.succeeded[j] && !reported && !inOrder {
			r.errorf("%+v was not reported", j)
		}
	}
	if inOrder && len(done) < len(accepted) && r.succeeded[accepted[len(done)]] {
		r.errorf("%+v was not reported, although all before it are done", accepted[len(done)])
	}
	if !slices.Equal(notDone, want) {
		r.errorf("handed back %v, want %v", numbers(notDone), numbers(want))
	}
}

func numbers(jobs []*job) (list []int) {
	for _, j := range jobs {
		list = append(list, j.number)
	}
	return list
}
