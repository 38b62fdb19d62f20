package transport

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/lockmw/go/internal/timers"
)

// A Probe finds out in the background, once, what kind of server there is: when several calls could share a command for the first
// time, and otherwise a while after the first lock. A process that takes a lock and ends does not pay for it, and the first lock
// does not need a second connection. Safe for concurrent use.
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
	// probeAfter is how long after the first lock the Probe looks if no calls gather.
	probeAfter = time.Second
	// probeTimeout is how long the answers of the server are waited for.
	probeTimeout = 5 * time.Second
)

// NewProbe returns a Probe of the servers of s, whose calls have not gathered yet.
func NewProbe(s *Sender, schedule *timers.Schedule, prefix string, logger *slog.Logger) *Probe {
	p := &Probe{s: s, schedule: schedule, prefix: prefix, logger: logger}
	p.timer.Of(p)
	s.onGathers = func() {
		p.Skip()
		schedule.SetNow(&p.timer)
	}
	return p
}

// Plan notes that there is a lock.
func (p *Probe) Plan() {
	p.planned.Do(func() { p.schedule.SetAfter(&p.timer, probeAfter, probeAfter/4) })
}

// Skip has the Probe look only when calls gather.
func (p *Probe) Skip() { p.planned.Do(func() {}) }

// Off has the Probe not look.
func (p *Probe) Off() { p.done.Do(func() {}) }

// Due looks.
func (p *Probe) Due() { p.done.Do(func() { p.s.spawn(p.Look) }) }

// Look asks the server now, and returns when it knows.
func (p *Probe) Look() {
	ctx, cancel := context.WithTimeout(p.s.ctx, probeTimeout)
	defer cancel()
	policy, err := EvictionPolicy(ctx, p.s.rdb)
	if err == nil && policy != "" && policy != "noeviction" {
		p.logger.Warn("lockmw: the server evicts keys when its memory is full, and locks with them; set maxmemory-policy to noeviction",
			"maxmemory-policy", policy)
	}
	p.s.SetBatching(IsOneServer(ctx, p.s.rdb, p.prefix))
}
