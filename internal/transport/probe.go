package transport

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/go/internal/timers"
)

// A Probe finds out in the background, once, what kind of server there is: when several calls could share a command for the first
// time, or a while after the first lock. A process that takes a lock and ends does not pay for it, and the first lock does not
// need a second connection. Safe for concurrent use.
type Probe struct {
	s        *Sender
	schedule *timers.Schedule
	timer    timers.Timer
	planned  sync.Once
	done     sync.Once

	prefix string
	logger *slog.Logger
}

const (
	// probeAfter is the time from the first lock to the probe if no calls gather.
	probeAfter = time.Second
	// probeTimeout is how long the Probe waits for the server's answers.
	probeTimeout = 5 * time.Second
)

// NewProbe returns a Probe of the servers of s. It must be called before calls gather.
func NewProbe(s *Sender, schedule *timers.Schedule, prefix string, logger *slog.Logger) *Probe {
	p := &Probe{s: s, schedule: schedule, prefix: prefix, logger: logger}
	p.timer.SetOwner(p)
	s.onGathers = func() {
		p.Skip()
		schedule.SetNow(&p.timer)
	}
	return p
}

// Schedule schedules the Probe after the first lock.
func (p *Probe) Schedule() {
	p.planned.Do(func() { p.schedule.SetAfter(&p.timer, probeAfter, probeAfter/4) })
}

// Skip limits the Probe to the time when calls gather.
func (p *Probe) Skip() { p.planned.Do(func() {}) }

// Disable disables the Probe.
func (p *Probe) Disable() { p.done.Do(func() {}) }

// Due starts the Probe.
func (p *Probe) Due() { p.done.Do(func() { p.s.spawn(p.RunNow) }) }

// RunNow asks the server now, and returns when it has the answers.
func (p *Probe) RunNow() {
	ctx, cancel := context.WithTimeout(p.s.ctx, probeTimeout)
	defer cancel()
	info, _ := ReadInfo(ctx, p.s.rdb) // INFO may be denied
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		p.logger.Warn("lockmw: the server may evict locks when its memory is full; set maxmemory-policy to noeviction",
			"maxmemory-policy", policy)
	}
	if HasOtherMasters(info) {
		p.logger.Warn("lockmw: other servers accept writes as well, so two callers can hold one lock; use servers with one master",
			"role", info["role"])
	}
	for _, s := range p.try(ctx, info) {
		p.logger.Warn("lockmw: "+s.Fault+"; "+s.Remedy, "answer", s.Err)
	}
	p.s.SetBatching(!p.s.sharded && IsOneServer(ctx, p.s.rdb, p.prefix))
}

// try returns the shortcomings of the server of a scratch key: the nodes of a Cluster run the same software. Redis and Valkey need
// not prove that their scripts are atomic, which would keep them busy for each process that starts.
func (p *Probe) try(ctx context.Context, info map[string]string) []Shortcoming {
	t := NewTrial(p.s.rdb, p.prefix, ScratchTag("probe"), p.s.cluster != nil)
	all, err := t.Scripts(ctx)
	if err != nil || slices.ContainsFunc(all, func(s Shortcoming) bool { return s.Effect == Unusable }) {
		return all
	}
	expiry, _ := t.Expiry(ctx)
	all = append(all, expiry...)
	if IsPlain(info) {
		return all
	}
	atomicity, _ := t.Atomicity(ctx, Little)
	return append(all, atomicity...)
}
