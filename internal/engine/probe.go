package engine

import (
	"sync"
	"time"

	"github.com/lockmw/go/internal/timers"
)

// A probing plans when the engine looks what kind of server there is: when several calls could share a command for the first time,
// and otherwise a while after the first lock. A process that takes a lock and ends does not pay for it, and the first lock does not
// need a second connection.
type probing struct {
	e     *Engine
	once  sync.Once
	timer timers.Timer
}

// probeAfter is how long after the first lock the engine looks if no calls gather.
const probeAfter = time.Second

func (p *probing) init(e *Engine) {
	p.e = e
	p.timer.Of(p)
	e.sender.OnGathering(func() {
		p.once.Do(func() {}) // it is not put off any more
		e.schedule.SetNow(&p.timer)
	})
}

// plan notes that there is a lock.
func (p *probing) plan() {
	p.once.Do(func() { p.e.schedule.SetAfter(&p.timer, probeAfter, probeAfter/4) })
}

// Due looks.
func (p *probing) Due() { p.e.probed.Do(p.e.probe) }
