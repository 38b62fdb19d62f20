package main

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockmw/go/internal/keyed"
)

// A filter selects locks.
type filter struct {
	key, kind, mode, process, label string
	heldLonger, waitingLonger       time.Duration
	waited                          bool

	keys, processes, labels *regexp.Regexp
}

// modes are the ways in which locks are held.
var modes = []string{"exclusive", "fair", "read", "write", "permit"}

func (f *filter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.key, "key", "", "only keys that match this pattern: * is any text, ? any character")
	flags.StringVar(&f.kind, "kind", "", "only keys of this kind: the part before the first colon; lock: keys without a colon")
	flags.StringVar(&f.mode, "mode", "", "only locks held in this mode: exclusive, fair, read, write or permit")
	completes(cmd, "mode", modes...)
	flags.StringVar(&f.process, "process", "", "only locks with a holder or waiter in a matching process (* and ?)")
	flags.StringVar(&f.label, "label", "", "only locks with a holder or waiter whose label matches (* and ?)")
	flags.DurationVar(&f.heldLonger, "held-longer", 0, "only locks held for longer than this, such as 30s")
	flags.DurationVar(&f.waitingLonger, "waiting-longer", 0, "only locks with a wait longer than this")
	flags.BoolVar(&f.waited, "waited", false, "only locks with waiters")
}

// glob compiles a pattern with * and ?. An empty pattern matches everything and returns nil.
func glob(pattern string) *regexp.Regexp {
	if pattern == "" {
		return nil
	}
	text := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
	return regexp.MustCompile(`(?s)^` + text + `$`)
}

// prepare checks the values and compiles the patterns. Call it once, before match. A mode that no lock has would match nothing, as
// if nobody held such a lock.
func (f *filter) prepare() error {
	switch {
	case f.mode != "" && !slices.Contains(modes, f.mode):
		return usage("--mode %s: must be one of %s", f.mode, strings.Join(modes, ", "))
	case min(f.heldLonger, f.waitingLonger) < 0:
		return usage("--held-longer and --waiting-longer: at least 0")
	}
	f.keys, f.processes, f.labels = glob(f.key), glob(f.process), glob(f.label)
	return nil
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
