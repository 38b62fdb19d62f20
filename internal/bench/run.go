package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/report"
	"github.com/lockmw/go/internal/bench/server"
	"github.com/lockmw/go/internal/bench/workload"
)

// A bench is the program, with the libraries and workloads that it can measure.
type bench struct {
	libraries []library.Library
	workloads []workload.Workload
	grace     time.Duration // in addition to its window, after which a measurement has hung
	out, errs io.Writer
}

// main returns the exit code.
func (b *bench) main(ctx context.Context, args []string) int {
	s, err := b.parse(args, b.out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(b.errs, "bench:", err)
		return 2
	}
	ok, err := b.run(ctx, s)
	if err != nil {
		fmt.Fprintln(b.errs, "bench:", err)
	}
	if !ok || err != nil {
		return 1
	}
	return 0
}

// run measures and reports. It is ok if all locks of this module were measured and excluded. A fault of another library is
// printed as that library's result.
func (b *bench) run(ctx context.Context, s *settings) (ok bool, err error) {
	on, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	defer on.close()
	if !s.json {
		fmt.Fprintf(b.out, "Redis %s, %s %s/%s, %d processors, %d rounds of %v\n\n", on.alone.Version,
			runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), s.rounds, s.options.Duration)
	}
	ok = true
	var all []report.Figures
	for _, together := range groups(s.workloads) {
		figures := b.measure(ctx, s, on, together)
		if ctx.Err() != nil {
			return false, errors.New("interrupted")
		}
		for _, f := range figures {
			ok = ok && (f.Err == nil || !f.Ours)
		}
		all = append(all, figures...)
		if s.json {
			if err := lines(b.out, figures); err != nil {
				return false, err
			}
		}
	}
	outcomes := report.Judge(all)
	if s.strict {
		ok = ok && !slices.ContainsFunc(outcomes, func(o report.Outcome) bool { return o.State == report.Missed })
	}
	if s.json {
		return ok, lines(b.out, outcomes)
	}
	if err := report.Table(b.out, all); err != nil {
		return false, err
	}
	fmt.Fprintln(b.out)
	if s.against != nil {
		if err := report.Ratios(b.out, all, s.against); err != nil {
			return false, err
		}
		fmt.Fprintln(b.out)
	}
	return ok, report.Goals(b.out, outcomes)
}

// servers are the servers that hold the locks.
type servers struct{ alone, cluster, nodes *server.Server }

// open starts the servers that the run needs, or finds the one to use.
func (s *settings) open(ctx context.Context) (on servers, err error) {
	if s.redis != "" {
		on.alone, err = server.Use(ctx, s.redis)
		return on, err
	}
	if on.alone, err = server.Start(ctx); err != nil {
		return on, err
	}
	if slices.ContainsFunc(s.workloads, needsCluster) {
		on.cluster, err = server.StartCluster(ctx)
	}
	if err == nil && slices.ContainsFunc(s.workloads, needsNodes) {
		on.nodes, err = server.StartNodes(ctx, workload.MostNodes)
	}
	if err != nil {
		on.close()
	}
	return on, err
}

func needsCluster(w workload.Workload) bool { return w.Cluster != workload.NoCluster }

func needsNodes(w workload.Workload) bool { return w.Nodes > 0 }

// needsOwn reports whether the workload needs servers that the benchmark starts.
func needsOwn(w workload.Workload) bool { return needsCluster(w) || needsNodes(w) || w.Half }

// of returns the server of a workload's locks.
func (on servers) of(w *workload.Workload) *server.Server {
	switch {
	case w.Cluster == workload.HasLocks:
		return on.cluster
	case w.Nodes > 0:
		return on.nodes.First(w.Nodes, w.Dead)
	}
	return on.alone
}

func (on servers) close() {
	for _, s := range []*server.Server{on.alone, on.cluster, on.nodes} {
		if s != nil {
			_ = s.Close()
		}
	}
}

// groups returns the workloads in groups that are measured together, one group after the other.
func groups(workloads []workload.Workload) [][]workload.Workload {
	var list [][]workload.Workload
	for len(workloads) > 0 {
		n := 1
		for n < len(workloads) && workloads[n].Group != "" && workloads[n].Group == workloads[0].Group {
			n++
		}
		list = append(list, workloads[:n])
		workloads = workloads[n:]
	}
	return list
}

// A contestant is a library in a workload.
type contestant struct {
	workload *workload.Workload
	library  library.Library
	rounds   []*workload.Round
	err      error
}

// measure measures workloads with all suitable libraries. In each round all take turns, and each round begins with a different
// one, so that noise affects all of them.
func (b *bench) measure(ctx context.Context, s *settings, on servers, workloads []workload.Workload) []report.Figures {
	var contestants []contestant
	most := 0
	for i := range workloads {
		w := &workloads[i]
		most = max(most, s.roundsOf(w))
		for _, l := range s.libraries {
			if w.Runs(l) {
				contestants = append(contestants, contestant{workload: w, library: l})
			}
		}
	}
	for r := range most {
		for _, i := range turns(len(contestants), r) {
			if c := &contestants[i]; r < s.roundsOf(c.workload) && c.err == nil && ctx.Err() == nil {
				b.round(ctx, s, on, c)
			}
		}
	}
	figures := make([]report.Figures, len(contestants))
	for i, c := range contestants {
		figures[i] = report.Sum(c.workload, c.library, c.rounds)
		figures[i].Err = c.err
	}
	return figures
}

// round measures once.
func (b *bench) round(ctx context.Context, s *settings, on servers, c *contestant) {
	var round *workload.Round
	round, c.err = c.workload.Measure(ctx, on.of(c.workload), c.library, s.options)
	if round != nil {
		c.rounds = append(c.rounds, round)
	}
	if c.err != nil && ctx.Err() == nil {
		b.complain(c.workload, c.library, c.err)
	}
}

// turns returns the order of n contestants in a round.
func turns(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = (i + round) % n
	}
	return order
}

func (s *settings) roundsOf(w *workload.Workload) int {
	switch {
	case w.Once:
		return 1
	case w.Minor:
		return (s.rounds + 1) / 2
	}
	return s.rounds
}

// complain prints an error immediately, in one line.
func (b *bench) complain(w *workload.Workload, l library.Library, err error) {
	kind := "failed"
	switch {
	case errors.Is(err, workload.ErrExclusion):
		kind = "DOES NOT EXCLUDE"
	case errors.Is(err, crew.ErrHung):
		kind = "hung"
	}
	fmt.Fprintf(b.errs, "bench: %s %s in %s: %s\n", l.Name, kind, w.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
}

func lines[T any](out io.Writer, values []T) error {
	e := json.NewEncoder(out)
	for _, v := range values {
		if err := e.Encode(v); err != nil {
			return err
		}
	}
	return nil
}
