package workload

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/exclusion"
	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/server"
)

// Options configure a measurement.
type Options struct {
	Duration   time.Duration // unless the workload has its own
	Grace      time.Duration // in addition, before it counts as hung
	Procs      int           // GOMAXPROCS of the processes; 0: the machine's
	Background bool          // locks are taken with contexts that never end
	Profile    string        // a directory for profiles of the processes; "": none
}

// A Round is one measurement.
type Round struct {
	Reports []Report
	Stats   server.Stats  // the server's work in that time
	Window  time.Duration // the time that Stats cover
}

// ErrExclusion means that two incompatible holds of a lock existed at the same time.
var ErrExclusion = errors.New("mutual exclusion violated")

// A Measurement is a measurement in progress.
type Measurement struct {
	server *server.Server
	crew   *crew.Crew
	page   string // the file of the exclusion check
	window time.Duration
	round  Round
}

// Measure measures once. The error wraps crew.ErrHung if the library did not finish. It wraps ErrExclusion, with a valid round,
// if the library did not exclude.
func (w *Workload) Measure(ctx context.Context, s *server.Server, l library.Library, o Options) (*Round, error) {
	dir, err := os.MkdirTemp("", "lockmw-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	page := filepath.Join(dir, "page")
	if err := exclusion.Create(page, w.Keys); err != nil {
		return nil, err
	}
	if err := s.Clean(ctx); err != nil {
		return nil, fmt.Errorf("emptying the server: %w", err)
	}
	addr := s.Addr
	if w.Delay > 0 {
		relay, err := s.Relay(w.Delay)
		if err != nil {
			return nil, err
		}
		defer relay.Close()
		addr = relay.Addr
	}
	window := o.Duration
	if w.Window != nil {
		window = w.Window(window)
	}
	if w.Half {
		whole, err := s.Halve(ctx)
		if err != nil {
			return nil, err
		}
		defer whole()
	}
	ctx, cancel := context.WithTimeout(ctx, window+w.Extra+o.Grace)
	defer cancel()
	jobs := w.jobs(l, o, Job{
		Workload: w.Name, Library: l.Name, Processes: w.Processes, Key: "bench:" + rand.Text(), Page: page,
		Window: window, Patience: window + w.Extra + o.Grace, Background: o.Background,
		Config: library.Config{Addr: addr, Nodes: s.Nodes, Independent: s.Independent, Wait: w.Wait},
	})
	c, err := crew.Start(ctx, firstOf(w.Procs, o.Procs), jobs...)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	m := &Measurement{server: s, crew: c, page: page, window: window}
	lead := w.lead
	if lead == nil {
		lead = allAtOnce
	}
	if err := lead(ctx, m); err != nil {
		return nil, err
	}
	const goodbye = 5 * time.Second // for releasing the rest
	err = c.Send(leave)
	c.Wait(goodbye)
	return &m.round, errors.Join(m.round.exclusion(), err)
}

func firstOf(procs ...int) int {
	for _, n := range procs {
		if n > 0 {
			return n
		}
	}
	return 0
}

func (w *Workload) jobs(l library.Library, o Options, job Job) []Job {
	jobs := make([]Job, w.Processes)
	for i := range jobs {
		jobs[i] = job
		jobs[i].Config.Index = i
		if o.Profile != "" {
			jobs[i].Profile = filepath.Join(o.Profile, w.Name+"."+l.Name)
		}
	}
	return jobs
}

// allAtOnce starts all processes together, and counts until the last one is done.
func allAtOnce(ctx context.Context, m *Measurement) error {
	if err := m.crew.Expect(ready); err != nil {
		return err
	}
	stop, err := m.watch(ctx)
	if err != nil {
		return err
	}
	if err := m.crew.Send(begin); err != nil {
		return err
	}
	if err := m.collect(); err != nil {
		return err
	}
	return stop()
}

// begin waits until all processes are ready, and starts them.
func (m *Measurement) begin() error {
	if err := m.crew.Expect(ready); err != nil {
		return err
	}
	return m.crew.Send(begin)
}

// watch counts the server's work until stop.
func (m *Measurement) watch(ctx context.Context) (stop func() error, err error) {
	start := time.Now()
	before, err := m.server.Stats(ctx)
	if err != nil {
		return nil, err
	}
	return func() error {
		after, err := m.server.Stats(ctx)
		m.round.Stats, m.round.Window = after.Since(before), time.Since(start)
		return err
	}, nil
}

// during counts the server's work while f runs.
func (m *Measurement) during(ctx context.Context, f func() error) error {
	stop, err := m.watch(ctx)
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return stop()
}

// collect collects the reports.
func (m *Measurement) collect() error {
	for _, member := range m.crew.Members() {
		var r Report
		if err := member.Expect(done, &r); err != nil {
			return err
		}
		m.round.Reports = append(m.round.Reports, r)
	}
	return nil
}

func (r *Round) exclusion() error {
	var n int64
	for i := range r.Reports {
		n += r.Reports[i].Violations
	}
	if n > 0 {
		return fmt.Errorf("%w: %d times a held lock was acquired", ErrExclusion, n)
	}
	return nil
}
