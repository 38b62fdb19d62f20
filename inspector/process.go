package inspector

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/internal/recordview"
	"github.com/lockmw/go/lockmw"
)

// A presence has the data about one process. It is immutable.
type presence struct {
	watch   *watch
	entries map[string]*entry // by key; read for this process; the entry of a free key has no holder
}

const (
	// mostWatched is the number of keys of a process that are read every second. That is enough, because the leases of a dead process
	// expire together.
	mostWatched = 64
	// mostShown is the maximum number of rows in each table of the page of a process or a key.
	mostShown = 200
)

// keepsPresence reports whether a confirmation of a release may still need a reading.
func keepsPresence(r reading[presence]) bool {
	return len(r.value.entries) > 0 && time.Since(r.at) <= confirmWithin
}

// readProcess reads the known holds and waits of a process again.
func (h *hub) readProcess(ctx context.Context, name string, last presence, alive func()) (presence, error) {
	keys, newest := last.toRead(name, h.all().value.of(name))
	now := presence{entries: make(map[string]*entry)}
	for _, key := range keys {
		now.entries[key] = h.entry(lockmw.Status{Key: key}, nil) // free, unless Read returns the key
	}
	var statuses []lockmw.Status
	for s, err := range h.insp.Read(ctx, keys, gently(alive)...) {
		if err != nil && s.Key == "" {
			return presence{}, err
		}
		now.entries[s.Key] = h.entry(s, err)
		statuses = append(statuses, s)
	}
	now.watch = last.watch.see(name, statuses, newest, time.Now())
	return now, ctx.Err()
}

// toRead returns the keys of a process to read next, and the start of its newest hold. Keys that are watched already come first, then
// the keys whose leases end first.
func (p presence) toRead(name string, all []*entry) (keys []string, newest time.Time) {
	found := make(map[string]time.Duration) // time left of the process's first lease, by key
	for e := range p.and(all) {
		left := time.Duration(-1)
		for i := range e.Holders {
			hd := &e.Holders[i]
			if hd.Process != name {
				continue
			}
			if left < 0 || hd.TTL < left {
				left = hd.TTL
			}
			if hd.Since.After(newest) {
				newest = hd.Since
			}
		}
		if left < 0 && slices.ContainsFunc(e.Waiters, func(w lockmw.Waiter) bool { return w.Process == name }) {
			left = time.Hour // a wait has no lease; its polls show life
		}
		if left >= 0 {
			found[e.Key] = left
		}
	}
	isSeen := func(key string) int {
		if p.entries[key] != nil {
			return 0
		}
		return 1
	}
	keys = slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Or(cmp.Compare(isSeen(a), isSeen(b)), cmp.Compare(found[a], found[b]), cmp.Compare(a, b))
	})
	return keys[:min(len(keys), mostWatched)], newest
}

// and yields the entries that were read for the process, and the entries of all other keys.
func (p presence) and(all []*entry) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, e := range p.entries {
			if !yield(e) {
				return
			}
		}
		for _, e := range all {
			if p.entries[e.Key] == nil && !yield(e) {
				return
			}
		}
	}
}

// of returns the locks that the process, or the processes of the host, with this name hold or wait for. Entries that were read for the
// process replace the locks of all, because they are newer.
func (p presence) of(all *snapshot, name string) (found []*entry) {
	for e := range p.and(all.of(name)) {
		if e.concerns(name) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *entry) int { return cmp.Compare(a.shown, b.shown) })
	return found
}

// An attendance lists the locks that one process holds or waits for.
type attendance struct {
	process
	entries []*entry
}

// findProcesses returns the attendance of each process in entries, by its name.
func findProcesses(entries []*entry) map[string]*attendance {
	all := make(map[string]*attendance)
	at := func(name string, e *entry) *process {
		a := all[name]
		if a == nil {
			a = &attendance{process: process{Process: name}}
			all[name] = a
		}
		if n := len(a.entries); n == 0 || a.entries[n-1] != e {
			a.entries = append(a.entries, e)
		}
		return &a.process
	}
	for _, e := range entries {
		for i := range e.Holders {
			at(e.Holders[i].Process, e).Holds++
		}
		for i := range e.Waiters {
			at(e.Waiters[i].Process, e).Waiting += e.Waiters[i].Calls
		}
	}
	return all
}

// of returns the entries that the process, or the processes of the host, with this name hold or wait for. The snapshot may be nil.
func (s *snapshot) of(name string) (entries []*entry) {
	if s == nil {
		return nil
	}
	found := make(map[*entry]bool)
	for process, a := range s.processes() {
		if !isOf(process, name) {
			continue
		}
		for _, e := range a.entries {
			if !found[e] {
				found[e] = true
				entries = append(entries, e)
			}
		}
	}
	return entries
}

// isOf reports whether name is the name of a process, its host, or its host and process id.
func isOf(process, name string) bool {
	rest, ok := strings.CutPrefix(process, name)
	return ok && (rest == "" || rest[0] == ':')
}

// concerns reports whether a process of this name holds the lock or waits for it.
func (e *entry) concerns(name string) bool {
	return e.any(func(process, _ string) bool { return isOf(process, name) })
}

// any reports whether is is true of a holder or a waiter.
func (e *entry) any(is func(process, label string) bool) bool {
	for i := range e.Holders {
		if h := &e.Holders[i]; is(h.Process, h.Label) {
			return true
		}
	}
	for i := range e.Waiters {
		if w := &e.Waiters[i]; is(w.Process, w.Label) {
			return true
		}
	}
	return false
}

// processHref is a link to the page of a process, relative to all pages.
func processHref(name string) string { return "process?" + url.Values{"process": {name}}.Encode() }

// A processPage is the page of one process, of the processes of a host, or of all processes.
type processPage struct {
	hub  *hub
	name string
	feed *feed[presence]    // nil: the name is empty
	now  *reading[presence] // for an instruction; nil: the last reading of the feed
}

func (p *processPage) known() reading[presence] {
	if p.now != nil {
		return *p.now
	}
	return p.feed.now()
}

// A process is a process with the numbers of its holds and waiting calls.
type process struct {
	Process string `json:"process"`
	Holds   int    `json:"holds"`
	Waiting int    `json:"waiting"` // calls
}

// A heldLock is a hold of a process. A wantedLock is a lock that calls of a process wait for.
type (
	heldLock struct {
		Key     string `json:"key"`
		Href    string `json:"href"` // as in lock
		State   string `json:"state"`
		Mode    string `json:"mode"`
		Waiting int    `json:"waiting"` // calls of all processes
		holder
	}
	wantedLock struct {
		Key   string `json:"key"`
		Href  string `json:"href"`
		State string `json:"state"`
		waiter
	}
)

type processBody struct {
	*answer
	Whole     bool         `json:"complete"` // as in overviewBody
	Processes []process    `json:"processes"`
	Holds     []heldLock   `json:"holds"`
	Waits     []wantedLock `json:"waits"`
	Silence   *silence     `json:"silence"` // null unless the name is that of one process

	Name    string `json:"-"`
	Release string `json:"-"` // link to the confirmation page; "" if the viewer may not release, or not yet
}

func (p *processPage) await(ctx context.Context, glance time.Time) {
	if p.hub.locks.now().whole { // a first reading of the process needs its locks
		defer watchAll(p, newViewer())() // the process is read while all locks are
	}
	p.hub.locks.fresh(ctx, glance)
	if p.feed != nil {
		p.feed.fresh(ctx, glance)
	}
}

func (p *processPage) feeds() []watched {
	if p.feed == nil {
		return []watched{p.hub.locks}
	}
	return []watched{p.hub.locks, p.feed}
}

func (p *processPage) show(v *view) *page {
	all := p.hub.all()
	shown := newPage(v, "process", cmp.Or(p.name, "Processes"), &all)
	shown.Live = live("process", url.Values{"process": {p.name}}.Encode())
	b := &processBody{
		answer: &shown.answer, Whole: all.whole, Processes: []process{}, Holds: []heldLock{}, Waits: []wantedLock{}, Name: p.name,
	}
	shown.Body = b
	if p.name == "" {
		if all.value != nil {
			b.list(all.value.processes())
		}
		return shown
	}
	known := p.known()
	found := known.value.of(all.value, p.name)
	b.list(findProcesses(found))
	for _, e := range found {
		l := v.lock(&e.Status, e.err, e.at, true)
		for _, h := range l.Holders {
			if isOf(h.Process, p.name) {
				b.Holds = append(b.Holds, heldLock{l.Key, l.Href, l.State, l.Mode, l.Waiting, h})
			}
		}
		for _, w := range l.Waiters {
			if isOf(w.Process, p.name) {
				b.Waits = append(b.Waits, wantedLock{l.Key, l.Href, l.State, w})
			}
		}
	}
	if len(b.Processes) == 0 || len(b.Processes) == 1 && b.Processes[0].Process == p.name {
		b.Silence = silenceOf(&known, len(b.Holds))
		if v.mayForce && b.Silence.Silent {
			b.Release = "release-process?" + url.Values{"process": {p.name}}.Encode()
		}
	}
	return shown
}

// list adds the processes with the name of the page. Those with the most holds come first.
func (b *processBody) list(all map[string]*attendance) {
	for name, a := range all {
		if b.Name == "" || isOf(name, b.Name) {
			b.Processes = append(b.Processes, a.process)
		}
	}
	slices.SortFunc(b.Processes, func(a, b process) int {
		return cmp.Or(cmp.Compare(b.Holds, a.Holds), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Process, b.Process))
	})
}

// The rows that a page shows. JSON has all rows.
func (b *processBody) SomeProcesses() []process {
	return b.Processes[:min(len(b.Processes), mostShown)]
}
func (b *processBody) SomeHolds() []heldLock   { return b.Holds[:min(len(b.Holds), mostShown)] }
func (b *processBody) SomeWaits() []wantedLock { return b.Waits[:min(len(b.Waits), mostShown)] }

// A silence says whether a process seems to be dead, judged by Redis alone.
type silence struct {
	Silent bool       `json:"silent"`
	Since  *time.Time `json:"since"` // no sign of life since then; null: not read yet
	Reason string     `json:"reason"`
}

// Reasons why a process counts as silent, or not.
const (
	reasonNothing = "It holds no locks and waits for none."
	reasonUnread  = "Its holds have not been read yet, or cannot be read now."
	reasonSilent  = "It shows no sign of life: a whole lease has expired without a renewal. Meanwhile it has not renewed, acquired, released or requested any lock."
	reasonFixed   = "None of its leases is ever renewed, so Redis cannot show whether it is alive. Release its holds one by one if you are sure that it is dead."
	reasonWait    = "It counts as dead only after a whole lease without a sign of life, while this page watches. No lease has expired yet"
)

// silenceOf decides whether all holds of a process may be released together, and gives the reason.
func silenceOf(known *reading[presence], holds int) *silence {
	if known.value.watch == nil || known.err != nil || known.silent() > 0 {
		return &silence{Reason: reasonUnread}
	}
	w := known.value.watch
	s := &silence{Since: recordview.Time(w.since)}
	left, renews := w.waitsFor(time.Now())
	switch {
	case holds == 0 && len(w.tickets) == 0:
		s.Reason = reasonNothing
	case w.ranOut:
		s.Silent, s.Reason = true, reasonSilent
	case !renews:
		s.Reason = reasonFixed
	default:
		s.Reason = reasonWait + ": the first ends in " + millisOf(left).String() + " unless renewed."
	}
	return s
}
