package main

import (
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lockmw/go/internal/keyed"
)

// A filter says which locks are wanted.
type filter struct {
	key, kind, mode, process, label string
	heldLonger, waitingLonger       time.Duration
	waited                          bool

	keys, processes, labels *regexp.Regexp
}

// modes are the ways in which locks are held.
var modes = []string{"exclusive", "fair", "read", "write", "permit"}

func (f *filter) flags(flags *pflag.FlagSet) {
	flags.StringVar(&f.key, "key", "", "only keys like this one: * is any text, ? any character")
	flags.StringVar(&f.kind, "kind", "", "only keys of this kind, which is what stands before the first colon; lock: keys without a kind")
	flags.StringVar(&f.mode, "mode", "", "only locks that are held like this: exclusive, fair, read, write or permit")
	flags.StringVar(&f.process, "process", "", "only locks that a process like this one holds or waits for (* and ?)")
	flags.StringVar(&f.label, "label", "", "only locks that a call with a label like this one holds or waits for (* and ?)")
	flags.DurationVar(&f.heldLonger, "held-longer", 0, "only locks that somebody has held for longer, such as 30s")
	flags.DurationVar(&f.waitingLonger, "waiting-longer", 0, "only locks that somebody has waited for longer")
	flags.BoolVar(&f.waited, "waited", false, "only locks that somebody waits for")
}

// glob compiles a pattern with * and ?; nil if it is empty, which matches all.
func glob(pattern string) *regexp.Regexp {
	if pattern == "" {
		return nil
	}
	text := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile(`(?s)^` + text + `$`)
}

// prepare is called once, before match.
func (f *filter) prepare() {
	f.keys, f.processes, f.labels = glob(f.key), glob(f.process), glob(f.label)
}

func (f *filter) match(r *lockRecord) bool {
	switch {
	case f.keys != nil && !f.keys.MatchString(r.Key),
		f.kind != "" && f.kind != keyed.Kind(r.Key),
		f.mode != "" && f.mode != r.Mode,
		f.waited && r.Waiting == 0,
		f.waitingLonger > 0 && r.longest() < f.waitingLonger.Seconds():
		return false
	}
	held := f.heldLonger == 0
	process, label := f.processes == nil, f.labels == nil
	for _, h := range r.Holders {
		held = held || h.Held >= f.heldLonger.Seconds()
		process = process || f.processes.MatchString(h.Process)
		label = label || f.labels.MatchString(h.Label)
	}
	for _, w := range r.Waiters {
		process = process || f.processes.MatchString(w.Process)
		label = label || f.labels.MatchString(w.Label)
	}
	return held && process && label
}
