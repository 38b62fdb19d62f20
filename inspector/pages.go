package inspector

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/recordview"
	"github.com/lockmw/go/lockmw"
)

// A subject is the topic of a page. It can be shown once, or watched.
type subject interface {
	// await waits for fresh data: until ctx ends, or, for data that is already there, until glance.
	await(ctx context.Context, glance time.Time)
	// feeds returns the feeds that the page depends on.
	feeds() []watched
	// show makes the page from the current data; nil if too many searches run.
	show(v *view) *page
}

// A watched notifies a viewer of changes until leave is called.
type watched interface {
	watch(v *viewer) (leave func())
}

// watchAll notifies v of all changes of a subject until leave is called.
func watchAll(s subject, v *viewer) (leave func()) {
	var all []func()
	for _, f := range s.feeds() {
		all = append(all, f.watch(v))
	}
	return func() {
		for _, leave := range all {
			leave()
		}
	}
}

// A page is the data of the templates. Bodies with an answer are also sent as JSON.
type page struct {
	answer
	Name   string // of its template
	Title  string
	Live   string // URL of its event stream; "": the page does not change
	Notice *notice
	Body   any
	Status int // of HTTP
}

// An answer has the fields with which every answer in JSON begins.
type answer struct {
	Prefix string     `json:"prefix"`
	AsOf   *time.Time `json:"as_of"` // time of the data; null: no data yet
	Age    millis     `json:"age_ms"`
	Error  *problem   `json:"error,omitempty"` // why the data is not the current state
}

// A notice says that the data of a page is old or incomplete.
type notice struct {
	Alarm   bool // false: only information
	Text    string
	Problem *problem
}

// newPage makes a page from a reading, with a notice if the reading is old, failed or missing.
func newPage[T any](v *view, name, title string, r *reading[T]) *page {
	p := &page{answer: answer{Prefix: v.hub.insp.Prefix(), AsOf: recordview.Time(r.at)}, Name: name, Title: title, Status: 200}
	if p.AsOf != nil {
		p.Age = millisOf(time.Since(r.at))
	}
	switch silent := millisOf(r.silent()); {
	case r.err != nil:
		p.Notice = &notice{true, "Redis could not be read.", v.problemOf(r.err)}
	case silent > 0:
		p.Notice = &notice{true, fmt.Sprintf("Redis has not answered for %v.", silent), nil}
	case p.AsOf == nil:
		p.Notice = &notice{false, "Redis has not answered yet.", nil}
	default:
		return p
	}
	p.Status = 503 // for pages and JSON: the data is not the current state
	if p.AsOf != nil {
		p.Notice.Text += fmt.Sprintf(" This page shows the state of %v ago.", p.Age)
	}
	if p.Error = p.Notice.Problem; p.Error == nil {
		p.Error = &problem{Type: "lock_unavailable", Message: p.Notice.Text}
	}
	return p
}

// failed reports whether the page does not show the current state.
func (p *page) failed() bool { return p.Notice != nil && p.Notice.Alarm }

// An overview is the page of all locks.
type overview struct {
	hub   *hub
	query query
}

type overviewBody struct {
	*answer
	Whole   bool    `json:"complete"` // false: the first read of all locks is still running
	Totals  *totals `json:"totals"`   // null: locks were never read
	Matched int     `json:"matched"`
	Page    int     `json:"page"`
	Pages   int     `json:"pages"`
	Locks   []*lock `json:"locks"`

	Query    query       `json:"-"`
	Columns  []column    `json:"-"`
	Previous string      `json:"-"` // links to the previous and next page; "": there is none
	Next     string      `json:"-"`
	States   []string    `json:"-"` // values of the filter
	Modes    []string    `json:"-"`
	Trends   *trendsBody `json:"-"`
	Others   []string    `json:"-"` // other prefixes in use, if this one has no locks
}

// trendsAnswer is the part of an overviewBody that trends.json has.
type trendsAnswer struct {
	*answer
	Trends *trendsBody `json:"trends"` // null: Redis was never read
}

// The values by which the overview can be filtered.
var (
	states = []string{stateContended, stateHeld, stateWaiting, stateLingering, stateKept, stateUnknown}
	modes  = []string{"exclusive", "fair", "read", "write", "permit"}
)

// A column is a column of the overview by which it can be sorted.
type column struct {
	Name, Title, Href string
	Sort              string // aria-sort; "": the overview is not sorted by this column
	Numeric           bool
}

func (o *overview) await(ctx context.Context, glance time.Time) {
	r := o.hub.locks.fresh(ctx, glance)
	switch {
	case r.whole && len(r.value.entries) == 0:
		o.hub.prefixes.fresh(ctx, glance)
	case r.whole:
		o.hub.queues.fresh(ctx, glance)
	}
	some, cancel := context.WithDeadline(ctx, glance) // trends are not worth a longer wait
	defer cancel()
	o.hub.events.fresh(some, glance)
}

func (o *overview) feeds() []watched { return []watched{o.hub.locks, o.hub.queues, o.hub.events} }

func (o *overview) show(v *view) *page {
	r := o.hub.all()
	p := newPage(v, "overview", "Locks", &r)
	p.Live = live("overview", o.query.encode())
	b := &overviewBody{
		answer: &p.answer, Whole: r.whole, Page: o.query.Page, Locks: []*lock{}, Query: o.query, Columns: o.columns(), States: states, Modes: modes,
	}
	if p.Notice == nil && !r.whole {
		p.Notice = &notice{Text: fmt.Sprintf("Still reading: %d locks so far.", len(r.value.entries))}
	}
	p.Body = b
	if r.value == nil {
		return p
	}
	t := r.value.total()
	b.Totals, b.Trends = &t, o.hub.trends()
	chosen, ok := r.value.choose(v.ctx, o.query, o.hub.searches)
	if !ok {
		return nil
	}
	b.Matched, b.Pages = len(chosen), max((len(chosen)+perPage-1)/perPage, 1)
	n := min(o.query.Page, b.Pages)
	b.Page = n
	for _, e := range chosen[(n-1)*perPage : min(n*perPage, len(chosen))] {
		b.Locks = append(b.Locks, v.lock(&e.Status, e.err, e.at, false))
	}
	if n > 1 {
		b.Previous = "./?" + o.query.at(n-1).encode()
	}
	if n < b.Pages {
		b.Next = "./?" + o.query.at(n+1).encode()
	}
	if len(r.value.entries) == 0 {
		b.Others = slices.DeleteFunc(slices.Clone(o.hub.prefixes.now().value), func(s string) bool { return s == p.Prefix })
	}
	return p
}

func (o *overview) columns() []column {
	all := []column{
		{Name: "key", Title: "Key"}, {Name: "state", Title: "State"}, {Name: "mode", Title: "Mode"}, {Name: "holder", Title: "Holder"},
		{Name: "held", Title: "Held for", Numeric: true}, {Name: "lease", Title: "Lease left", Numeric: true},
		{Name: "waiting", Title: "Waiting", Numeric: true}, {Name: "wait", Title: "Longest wait", Numeric: true},
	}
	for i := range all {
		c := &all[i]
		c.Href = "./?" + o.query.by(c.Name).encode()
		if c.Name == o.query.sort {
			// These columns begin with the largest value.
			down := slices.Contains([]string{"held", "waiting", "wait"}, c.Name)
			c.Sort = map[bool]string{true: "descending", false: "ascending"}[down != o.query.backwards]
		}
	}
	return all
}

// A keyPage is the page of one key.
type keyPage struct {
	hub    *hub
	key    string
	status *feed[keyStatus]
	query  string // of the request
}

type keyBody struct {
	*answer
	Lock    *lock       `json:"lock"`
	History []happening `json:"history"` // latest first; empty without recorded events
	Since   time.Time   `json:"-"`       // start of the history, if older events exist; otherwise zero
}

func (k *keyPage) await(ctx context.Context, glance time.Time) {
	some, cancel := context.WithTimeout(ctx, patience/3)
	defer cancel()
	k.hub.kept.fresh(some, glance) // reading the status needs their names
	if r := k.status.fresh(ctx, glance); r.err == nil {
		k.hub.events.fresh(ctx, glance)
	}
}

func (k *keyPage) feeds() []watched { return []watched{k.status, k.hub.kept, k.hub.events} }

func (k *keyPage) show(v *view) *page {
	r := k.status.now()
	p := newPage(v, "key", v.shown(k.key), &r)
	p.Live = live("key", k.query)
	status := r.value.Status
	status.Key = k.key
	l := v.lock(&status, r.value.wrong, r.at, true)
	l.addTasks(r.value.tasks)
	l.NoTasks = v.problemOf(r.value.noTasks)
	if r.at.IsZero() {
		l.State = stateUnknown
	}
	events, since := k.hub.events.now().value.of(k.key)
	p.Body = &keyBody{&p.answer, l, v.happenings(events), since}
	return p
}

// A redisPage is the page of the server, or of the masters of a Cluster.
type redisPage struct{ hub *hub }

type redisBody struct {
	*answer
	Servers  []server         `json:"servers"`
	Prefixes []string         `json:"prefixes"`
	Findings []doctor.Finding `json:"findings"` // of the doctor's checks that do not write

	Problem *problem `json:"-"` // of the prefixes
	Read    bool     `json:"-"` // the prefixes have been read
	Away    bool     `json:"-"` // the servers do not answer, so old findings may be wrong
}

type server struct {
	Addr           string   `json:"addr,omitempty"`
	Software       string   `json:"software,omitempty"`
	Version        string   `json:"version,omitempty"`
	Mode           string   `json:"mode,omitempty"`
	Role           string   `json:"role,omitempty"`
	UsedMemory     size     `json:"used_memory_bytes"`
	MaxMemory      size     `json:"max_memory_bytes"`
	EvictionPolicy string   `json:"eviction_policy,omitempty"`
	Uptime         millis   `json:"uptime_ms"`
	Latency        *float64 `json:"ping_ms"` // null: it does not answer now
	Error          *problem `json:"error,omitempty"`
}

func (s *redisPage) await(ctx context.Context, glance time.Time) {
	if r := s.hub.servers.fresh(ctx, glance); r.err == nil {
		s.hub.prefixes.fresh(ctx, glance)
		s.hub.findings.fresh(ctx, glance)
	}
}

func (s *redisPage) feeds() []watched {
	return []watched{s.hub.servers, s.hub.prefixes, s.hub.findings}
}

func (s *redisPage) show(v *view) *page {
	r, prefixes := s.hub.servers.now(), s.hub.prefixes.now()
	p := newPage(v, "redis", "Redis", &r)
	p.Live = live("redis", "")
	b := &redisBody{
		answer: &p.answer, Servers: []server{}, Prefixes: append([]string{}, prefixes.value...), Findings: []doctor.Finding{},
		Problem: v.problemOf(prefixes.err), Read: !prefixes.at.IsZero(), Away: p.failed(),
	}
	for i := range r.value {
		shown := v.server(&r.value[i])
		if b.Away {
			shown.Latency = nil
		}
		b.Servers = append(b.Servers, shown)
	}
	if !b.Away {
		b.Findings = append(b.Findings, s.hub.findings.now().value...)
	}
	p.Body = b
	return p
}

// Ping returns the duration of the last PING as text.
func (s server) Ping() string {
	if s.Latency == nil {
		return "no answer"
	}
	return fmt.Sprintf("%.2f ms", *s.Latency)
}

func (v *view) server(s *lockmw.Server) server {
	latency := float64(s.Latency.Round(time.Microsecond).Microseconds()) / 1000
	return server{
		Addr: s.Addr, Software: s.Software, Version: s.Version, Mode: s.Mode, Role: s.Role, UsedMemory: size(s.UsedMemory),
		MaxMemory: size(s.MaxMemory), EvictionPolicy: s.EvictionPolicy, Uptime: millisOf(s.Uptime),
		Latency: &latency, Error: v.problemOf(s.InfoErr),
	}
}

// live returns the URL of a page's event stream.
func live(page, query string) string {
	href := "live?page=" + page
	if query != "" {
		href += "&" + query
	}
	return href
}
