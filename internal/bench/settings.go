package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/workload"
)

// settings has the values of the flags.
type settings struct {
	libraries []library.Library
	workloads []workload.Workload
	options   workload.Options
	against   []string // names of libraries
	rounds    int
	redis     string
	json      bool
	strict    bool
}

// parse parses the command line. An error has one line; flag.ErrHelp means that the help was written to out.
func (b *bench) parse(args []string, out io.Writer) (*settings, error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	s := &settings{options: workload.Options{Grace: b.grace}}
	quick := f.Bool("quick", false, "measure everything in about two minutes, with more noise")
	f.BoolVar(&s.json, "json", false, "print JSON lines instead of tables")
	f.BoolVar(&s.strict, "strict", false, "fail if a goal is missed")
	works := f.String("work", "", "`list` of workloads or of their groups, separated by commas (default all)")
	libs := f.String("libs", "", "`list` of libraries, separated by commas (default all)")
	against := f.String("against", "", "`list` of libraries: also print the ratios to the first one that a workload has")
	f.IntVar(&s.rounds, "rounds", 5, "number of rounds; with -quick 2")
	f.DurationVar(&s.options.Duration, "duration", time.Second, "duration of a measurement, from 10ms to 1m; with -quick 200ms")
	f.StringVar(&s.redis, "redis", "", "`address` of a running server to use, which should be idle otherwise")
	f.IntVar(&s.options.Procs, "procs", 0, "GOMAXPROCS of the measured processes (default: that of the machine)")
	f.BoolVar(&s.options.Background, "background", false, "take locks with a context that never ends, instead of one that may end")
	f.StringVar(&s.options.Profile, "profile", "", "`directory` for CPU, mutex and allocation profiles of the measured processes")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		b.help(out, f)
	}
	if err != nil {
		return nil, err
	}
	if *quick {
		s.hurry(f)
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q: unexpected argument", f.Arg(0))
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	nameOf := func(l library.Library) []string { return []string{l.Name} }
	if s.libraries, err = choose("-libs", *libs, b.libraries, nameOf); err != nil {
		return nil, err
	}
	if *against != "" {
		if _, err := choose("-against", *against, b.libraries, nameOf); err != nil {
			return nil, err
		}
		s.against = strings.Split(*against, ",")
	}
	s.workloads, err = choose("-work", *works, b.workloads, b.namesOf)
	if err == nil {
		err = s.leaveOut(*works != "", *quick)
	}
	return s, err
}

// namesOf returns the names by which the command line chooses a workload: also its group's, unless a workload has the same.
func (b *bench) namesOf(w workload.Workload) []string {
	if w.Group == "" || slices.ContainsFunc(b.workloads, func(other workload.Workload) bool { return other.Name == w.Group }) {
		return []string{w.Name}
	}
	return []string{w.Name, w.Group}
}

// leaveOut skips workloads that cannot be measured. It returns an error if none is left, or if such a workload was named. A quick run
// also skips long workloads, unless they are named.
func (s *settings) leaveOut(named, quick bool) error {
	if quick && !named {
		s.workloads = slices.DeleteFunc(slices.Clone(s.workloads), func(w workload.Workload) bool { return w.Long })
	}
	if s.redis != "" {
		if named && slices.ContainsFunc(s.workloads, needsOwn) {
			return errors.New("-redis: this workload needs servers that the benchmark starts itself: a Cluster, several servers, or a server that is stopped half of the time")
		}
		s.workloads = slices.DeleteFunc(slices.Clone(s.workloads), needsOwn)
	}
	if !s.measuresAnything() {
		return errors.New("none of these workloads works with these libraries")
	}
	return nil
}

func (s *settings) measuresAnything() bool {
	return slices.ContainsFunc(s.workloads, func(w workload.Workload) bool { return slices.ContainsFunc(s.libraries, w.Runs) })
}

// hurry applies -quick to the flags that the command line omits.
func (s *settings) hurry(f *flag.FlagSet) {
	said := make(map[string]bool)
	f.Visit(func(f *flag.Flag) { said[f.Name] = true })
	if !said["rounds"] {
		s.rounds = 2
	}
	if !said["duration"] {
		s.options.Duration = 200 * time.Millisecond
	}
}

func (s *settings) check() error {
	switch d := s.options.Duration; {
	case s.rounds < 1:
		return fmt.Errorf("-rounds %d: must be at least 1", s.rounds)
	case d < 10*time.Millisecond || d > time.Minute:
		return fmt.Errorf("-duration %v: must be from 10ms to 1m", d)
	case s.options.Procs < 0:
		return fmt.Errorf("-procs %d: must not be negative", s.options.Procs)
	}
	if dir := s.options.Profile; dir != "" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("-profile %s: not a directory", dir)
		}
	}
	return nil
}

// choose returns the elements of all that have a name in list, in the order of all; all of them if the list is empty.
func choose[T any](flag, list string, all []T, namesOf func(T) []string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	names := strings.Split(list, ",")
	var known []string
	var chosen []T
	for _, v := range all {
		own := namesOf(v)
		for _, name := range own {
			if !slices.Contains(known, name) {
				known = append(known, name)
			}
		}
		if slices.ContainsFunc(own, func(name string) bool { return slices.Contains(names, name) }) {
			chosen = append(chosen, v)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%s: no %q; there are %s", flag, name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

func (b *bench) help(out io.Writer, f *flag.FlagSet) {
	fmt.Fprintln(out, "Bench compares lockmw with other lock libraries on a Redis server that it starts.")
	fmt.Fprintln(out, "\nFlags:")
	f.SetOutput(out)
	f.PrintDefaults()
	fmt.Fprintln(out, "\nWorkloads:")
	for _, w := range b.workloads {
		fmt.Fprintf(out, "  %-20s %s\n", w.Name, w.About)
	}
	fmt.Fprintln(out, "\nLibraries:")
	for _, l := range b.libraries {
		fmt.Fprintf(out, "  %s\n", l.Name)
	}
	fmt.Fprintln(out, "\nExit code: 0, 1 if a lock of lockmw was not measured or did not exclude (with -strict also if\na goal was missed), 2 if the command line is wrong.")
}
