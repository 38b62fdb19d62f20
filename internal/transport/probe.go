package transport

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/timers"
)

// A Probe finds out in the background what kind of server there is: when several calls could share a command for the first time,
// or a while after the first lock. A process that takes a lock and ends does not pay for it, and the first lock does not need a
// second connection. A server that does not answer is asked again later. Safe for concurrent use.
type Probe struct {
	s        *Sender
	schedule *timers.Schedule
	timer    timers.Timer
	planned  sync.Once
	begun    atomic.Bool   // it runs or has ended
	pause    time.Duration // before the server is asked again

	prefix string
	logger *slog.Logger
}

const (
	// probeAfter is the time from the first lock to the probe if no calls gather.
	probeAfter = time.Second
	// probeTimeout is how long the Probe waits for the server's answers.
	probeTimeout = 5 * time.Second
	// maxProbePause is the longest pause before a server is asked again. The pauses double from probeAfter on.
	maxProbePause = time.Minute
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
func (p *Probe) Disable() { p.begun.Store(true) }

// Due starts the Probe.
func (p *Probe) Due() {
	if !p.begun.Swap(true) {
		p.s.spawn(p.run)
	}
}

// run asks the server now, and again later if it does not answer.
func (p *Probe) run() {
	if p.RunNow() {
		return
	}
	p.pause = min(max(2*p.pause, probeAfter), maxProbePause)
	p.begun.Store(false)
	p.schedule.SetAfter(&p.timer, p.pause, p.pause/4)
}

// RunNow asks the server now. It returns false if the server does not answer, or cannot now: then nothing is decided.
func (p *Probe) RunNow() (answered bool) {
	ctx, cancel := context.WithTimeout(p.s.ctx, probeTimeout)
	defer cancel()
	info, err := ReadInfo(ctx, p.s.rdb)
	if IsTemporary(err) { // other errors say that INFO is denied
		return false
	}
	found, err := p.try(ctx, info)
	if IsTemporary(err) {
		return false
	}
	one := false
	if _, ok := p.s.rdb.(*redis.Client); ok && !p.s.sharded {
		if one, err = runsOnOne(ctx, p.s.rdb, p.prefix); IsTemporary(err) {
			return false
		}
	}
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		p.logger.Warn("lockmw: the server may evict locks when its memory is full; set maxmemory-policy to noeviction",
			"maxmemory-policy", policy)
	}
	if HasOtherMasters(info) {
		p.logger.Warn("lockmw: other servers accept writes as well, so two callers can hold one lock; use servers with one master",
			"role", info["role"])
	}
	for _, s := range found {
		p.logger.Warn("lockmw: "+s.Fault+"; "+s.Remedy, "answer", s.Err)
	}
	p.s.SetBatching(one)
	return true
}

// try returns the shortcomings of the server of a scratch key: the nodes of a Cluster run the same software. Redis and Valkey need
// not prove that their scripts are atomic, which would keep them busy for each process that starts.
func (p *Probe) try(ctx context.Context, info map[string]string) (all []Shortcoming, err error) {
	t := NewTrial(p.s.rdb, p.prefix, ScratchTag("probe"), p.s.cluster != nil)
	all, err = t.Scripts(ctx)
	if err != nil || slices.ContainsFunc(all, func(s Shortcoming) bool { return s.Effect == Unusable }) {
		return all, err
	}
	expiry, err := t.Expiry(ctx)
	all = append(all, expiry...)
	if IsPlain(info) || IsTemporary(err) {
		return all, err
	}
	atomicity, err := t.Atomicity(ctx, Little)
	return append(all, atomicity...), err
}
