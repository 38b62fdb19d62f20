package lockmw_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A setting is an option as a text, for example wait=5s; ( … ) joins options and [ … ] makes them
// defaults. Every text is a list of settings.
type setting struct {
	name     string
	value    string
	duration time.Duration
	n        int
	of       []setting
}

var observers = []*lockmw.Observer{{}, {}, {}}

func settingsOf(text string) []setting {
	open := []setting{{}}
	closeOne := func() {
		last := len(open) - 1
		open[last-1].of = append(open[last-1].of, open[last])
		open = open[:last]
	}
	for word := range strings.FieldsSeq(text) {
		last := &open[len(open)-1]
		switch {
		case (word == "(" || word == "[") && len(open) < 6:
			open = append(open, setting{name: word})
		case (word == ")" || word == "]") && len(open) > 1:
			closeOne()
		default:
			name, value, _ := strings.Cut(word, "=")
			s := setting{name: name, value: value}
			if i := slices.Index([]string{"wait", "lease", "fixed", "maxhold", "minhold", "waiters", "name", "failopen", "observer", "none"}, name); i < 0 {
				continue
			}
			s.n, _ = strconv.Atoi(value)
			if d, err := time.ParseDuration(value); err == nil {
				s.duration = d
			} else if value == "forever" {
				s.duration = lockmw.Forever
			}
			last.of = append(last.of, s)
		}
	}
	for len(open) > 1 {
		closeOne()
	}
	return open[0].of
}

func optionsOf(settings []setting) []lockmw.Option {
	var opts []lockmw.Option
	for _, s := range settings {
		opts = append(opts, s.option())
	}
	return opts
}

func (s *setting) option() lockmw.Option {
	switch s.name {
	case "(":
		return lockmw.JoinOptions(optionsOf(s.of)...)
	case "[":
		return lockmw.WithDefaults(optionsOf(s.of)...)
	case "wait":
		return lockmw.WithWait(s.duration)
	case "lease":
		return lockmw.WithLease(s.duration)
	case "fixed":
		return lockmw.WithFixedLease(s.duration)
	case "maxhold":
		return lockmw.WithMaxHold(s.duration)
	case "minhold":
		return lockmw.WithMinHold(s.duration)
	case "waiters":
		return lockmw.WithMaxWaiters(s.n)
	case "name":
		return lockmw.WithName(s.value)
	case "label":
		return lockmw.WithLabel(s.value)
	case "failopen":
		return lockmw.WithFailOpen()
	case "observer":
		return lockmw.WithObserver(s.observer())
	}
	return lockmw.Option{}
}

func (s *setting) observer() *lockmw.Observer {
	if s.n < 0 || s.n >= len(observers) {
		return nil
	}
	return observers[s.n]
}

// valid is what the options' documentation says.
func (s *setting) valid() bool {
	const day = 24 * time.Hour
	switch s.name {
	case "wait":
		return s.duration >= 0
	case "lease", "fixed":
		return s.duration >= 100*time.Millisecond && s.duration <= day
	case "maxhold":
		return s.duration == 0 || s.duration >= time.Millisecond
	case "minhold":
		return s.duration >= 0 && s.duration <= day
	case "waiters":
		return s.n >= 0
	case "name":
		return len(s.value) <= 200
	case "label":
		return len(s.value) <= 100 && !strings.ContainsFunc(s.value, func(r rune) bool { return r <= ' ' || r > '~' })
	case "observer":
		return s.observer() != nil
	}
	return s.name != "none"
}

// byRank sorts settings: those that decide, the defaults for them, the defaults' own defaults, ….
func byRank(settings []setting, rank int, sorted [][]setting) [][]setting {
	for len(sorted) <= rank {
		sorted = append(sorted, nil)
	}
	for _, s := range settings {
		switch s.name {
		case "(":
			sorted = byRank(s.of, rank, sorted)
		case "[":
			sorted = byRank(s.of, rank+1, sorted)
		default:
			sorted[rank] = append(sorted[rank], s)
		}
	}
	return sorted
}

// expected adds up settings as the documentation says. It is invalid if a setting that counts is;
// suspect, if any is.
func expected(settings []setting) (p lockmw.Policy, invalid, suspect bool) {
	p = lockmw.Policy{Wait: lockmw.Forever, Lease: 30 * time.Second}
	decided := make(map[string]bool)
	for _, rank := range byRank(settings, 0, nil) {
		now := make(map[string]bool)
		for _, s := range rank {
			what := strings.Replace(s.name, "fixed", "lease", 1)
			suspect = suspect || !s.valid()
			if decided[what] {
				continue
			}
			invalid = invalid || !s.valid()
			if what != "observer" && what != "none" {
				now[what] = true
			}
			s.apply(&p)
		}
		for what := range now {
			decided[what] = true
		}
	}
	return p, invalid, suspect
}

func (s *setting) apply(p *lockmw.Policy) {
	switch s.name {
	case "wait":
		p.Wait = s.duration
	case "lease", "fixed":
		p.Lease, p.Fixed = s.duration, s.name == "fixed"
	case "maxhold":
		p.MaxHold = s.duration
	case "minhold":
		p.MinHold = s.duration
	case "waiters":
		p.MaxWaiters = s.n
	case "name":
		p.Name = s.value
	case "label":
		p.Label = s.value
	case "failopen":
		p.FailOpen = true
	case "observer":
		if o := s.observer(); !slices.Contains(p.Observers, o) {
			p.Observers = append(p.Observers, o)
		}
	}
}

// Options add up as documented or are refused, whatever they are; nothing is bent into its range. A
// lock can be taken with what is accepted.
func FuzzPolicy(f *testing.F) {
	for _, text := range []string{
		"", "wait=0s lease=100ms", "wait=-1ns", "wait=forever lease=24h maxhold=2540400h", "lease=99ms", "lease=24h1ns", "lease=0s",
		"fixed=100ms maxhold=1ms", "maxhold=999us", "maxhold=-1ms", "minhold=24h waiters=3 name=x failopen", "minhold=-1ns", "minhold=25h",
		"waiters=-1", "waiters=9223372036854775807", "name=" + strings.Repeat("n", 200), "name=" + strings.Repeat("n", 201), "none", "( none )",
		"label=a label=b", "[ label=a ]", "label=é", "label=" + strings.Repeat("l", 100), "label=" + strings.Repeat("l", 101), "[ none ]",
		"observer=0 observer=1 observer=0 [ observer=2 ]", "observer=7", "wait=1s wait=2s", "fixed=1s lease=2s", "lease=2s fixed=1s",
		"[ wait=1s ] wait=2s", "wait=2s [ wait=1s ]", "[ wait=1s wait=2s ]", "[ wait=1s ] [ wait=2s ]", "[ [ wait=1s ] wait=2s ]", "[ wait=1s [ wait=2s ] ]",
		"fixed=1s [ lease=2s ]", "lease=2s [ fixed=1s ]", "( wait=1s ( lease=5s ) ) name=a", "wait=2s ( [ wait=1s ] )",
		"wait=2s [ ( wait=1s ) ]", "( [ wait=1s ] ) [ wait=2s ]", "wait=2s [ wait=-1s ]", "[ wait=-1s ]", "[ ( [ ( wait=1s ) ] lease=1s ) ] lease=3s",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		settings := settingsOf(text)
		opts := optionsOf(settings)
		got, err := lockmw.NewPolicy(opts...)
		want, invalid, suspect := expected(settings)
		if err != nil {
			if !suspect || !errors.Is(err, lockmw.ErrInvalidOption) {
				t.Fatalf("%q: %v", text, err)
			}
			_, _, err = lockmw.NewLocal().Lock(t.Context(), "item:1", opts...)
			if !errors.Is(err, lockmw.ErrInvalidOption) {
				t.Errorf("%q: Lock: %v", text, err)
			}
			return
		}
		if invalid || !samePolicy(&got, &want) {
			t.Fatalf("%q gives %+v, want %+v; invalid: %t", text, got, want, invalid)
		}
		synctest.Test(t, func(t *testing.T) { lockWith(t, lockmw.NewLocal(), opts) })
	})
}

func samePolicy(a, b *lockmw.Policy) bool {
	return a.Wait == b.Wait && a.Lease == b.Lease && a.Fixed == b.Fixed && a.MaxHold == b.MaxHold && a.MinHold == b.MinHold &&
		a.MaxWaiters == b.MaxWaiters && a.Name == b.Name && a.Label == b.Label && a.FailOpen == b.FailOpen && slices.Equal(a.Observers, b.Observers)
}

// lockWith takes a lock twice with options that were accepted.
func lockWith(t *testing.T, l lockmw.Locker, opts []lockmw.Option) {
	t.Helper()
	for _, key := range []string{"item:1", "item:2"} {
		ctx, hold := usertest.Lock(t, t.Context(), l, key, opts...)
		if err := ctx.Err(); err != nil {
			t.Error(err)
		}
		usertest.Unlock(t, hold)
	}
}
