package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// quarantined starts processes over three nodes with a quarantine. Each process has used all nodes.
func (b *bubble) quarantined(processes int) (memories []*redistest.Memory, all []*process) {
	b.Helper()
	for i := range 3 {
		memories = append(memories, b.node(i).NewMemory(b))
	}
	for range processes {
		all = append(all, b.process(lockmw.WithQuarantine(lossQuarantine), lockmw.WithLease(lossLease)).warm())
	}
	return memories, all
}

// One node is unreachable, and another was restarted without its data. After its quarantine locks are granted with greater tokens,
// although the unreachable node has tokens that the two others lack. Until then calls fail and say why.
func TestOneNodeIsUnreachableAndAnotherIsRestarted(t *testing.T) {
	names := func(err error, node int, why string) bool {
		return strings.Contains(err.Error(), fmt.Sprintf("node %d (127.0.0.%d:0): ", node+1, node+1)) && strings.Contains(err.Error(), why)
	}
	for down := range 3 {
		inBubble(t, 3, func(b *bubble) {
			memories, all := b.quarantined(3)
			p, restarted := all[0], (down+1)%3
			b.setCounter(down, 50*time.Second)
			p.wires[3-down-restarted].Cut() // so that the other two have the hold, and one of them receives its token
			time.Sleep(2 * time.Second)
			_, hold := lock(b.T, p, "item")
			token := hold.Token()
			_ = hold.Unlock()
			p.wires[3-down-restarted].Restore()
			for _, p := range all {
				p.wires[down].Cut()
			}
			time.Sleep(time.Second) // until the processes have noticed
			memories[restarted].Lose()
			lost := time.Now()
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			for _, p := range all[1:] {
				p.repeat(ctx, &wg, 2, func(ctx context.Context) {
					_, hold, err := p.Lock(ctx, "other", lockmw.WithWait(0))
					switch {
					case err == nil:
						_ = hold.Unlock()
						cancel()
					case ctx.Err() == nil && time.Since(lost) < lossQuarantine && (errors.Is(err, lockmw.ErrBusy) || !names(err, down, "connection refused") || time.Since(lost) > time.Second && !names(err, restarted, "may have lost locks")):
						b.Errorf("TryLock after %v: %v, want ErrUnavailable that says why", time.Since(lost), err)
					}
					time.Sleep(20 * time.Millisecond)
				})
			}
			start := time.Now()
			_, hold = lock(b.T, all[1], "item") // the process has seen no token of p
			if took := time.Since(start); took < lossQuarantine-time.Second || took > lossQuarantine+2*time.Second {
				b.Errorf("the lock is taken after %v", took)
			}
			if hold.Token() <= token {
				b.Errorf("token %d after %d", hold.Token(), token)
			}
			cancel()
			wg.Wait()
			_ = hold.Unlock()
			for _, p := range all {
				p.wires[down].Restore()
			}
		})
	}
}

// The process has a hold, and in the meantime makes no calls that would ask the node.
func TestANodeTakesPartInAHoldAgainAfterItsQuarantine(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		memories, all := b.quarantined(1)
		ctx, hold := lock(b.T, all[0], "item")
		for i, m := range memories {
			synctest.Wait()
			m.Lose()
			time.Sleep(lossQuarantine + lossLease)
			if !b.isHeld(i, "item") || b.counter(i) < hold.Token() {
				b.Errorf("node %d has the hold: %t; its counter is %d, the token %d", i, b.isHeld(i, "item"), b.counter(i), hold.Token())
			}
		}
		if ctx.Err() != nil {
			b.Errorf("the hold has ended: %v", context.Cause(ctx))
		}
		usertest.Unlock(b, hold)
	})
}
