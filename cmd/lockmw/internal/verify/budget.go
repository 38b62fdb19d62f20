package verify

import (
	"context"
	"sync"
	"time"

	"github.com/lockmw/go/internal/pause"
)

// A budget bounds the time that a server works for a process to a share of the time. It is safe for concurrent use.
type budget struct {
	share float64

	mu      sync.Mutex
	cost    time.Duration // of a script
	balance time.Duration // time of the server that may be used
	at      time.Time     // of the balance
	scripts int
}

// burst is the time of the server that may be used without a pause.
const burst = 20 * time.Millisecond

func newBudget(cost time.Duration, share float64) *budget {
	return &budget{cost: cost, share: share, at: time.Now()}
}

// spend records a script that is sent. Scripts that must be sent, such as renewals, make later calls wait.
func (b *budget) spend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.scripts++
	b.refill()
	b.balance -= b.cost
}

// refill updates the balance; b.mu is held.
func (b *budget) refill() {
	now := time.Now()
	b.balance = min(b.balance+time.Duration(float64(now.Sub(b.at))*b.share), max(time.Duration(float64(burst)*b.share), b.cost))
	b.at = now
}

// wait waits until the balance is not negative. It returns false when ctx ends.
func (b *budget) wait(ctx context.Context) bool {
	for {
		b.mu.Lock()
		b.refill()
		debt := -b.balance
		b.mu.Unlock()
		if debt <= 0 {
			return ctx.Err() == nil
		}
		if !pause.For(ctx, time.Duration(float64(debt)/b.share)) {
			return false
		}
	}
}

// spent returns the number of scripts since the last call of spent.
func (b *budget) spent() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.scripts
	b.scripts = 0
	return n
}

func (b *budget) setCost(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cost = d
}
