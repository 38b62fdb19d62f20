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

// loseTokens restarts all nodes but one together without their data. The node that is kept has not seen the last tokens, and the
// clocks are behind them. loseTokens returns the last token, and a process that has not seen it.
func (b *bubble) loseTokens(kept int) (token int64, other *process) {
	b.Helper()
	memories, all := b.quarantined(2)
	for i := range memories {
		b.setCounter(i, 50*time.Second)
	}
	gone := all[0]
	gone.wires[kept].Cut()
	time.Sleep(2 * time.Second) // until the process has noticed
	for range 10 {
		_, hold := lock(b.T, gone, "item")
		token = hold.Token()
		usertest.Unlock(b, hold)
	}
	if last := b.counter(kept); last >= token {
		b.Fatalf("node %d has token %d of the last hold: its counter is %d", kept, token, last)
	}
	for i, m := range memories {
		gone.wires[i].Cut()
		if i != kept {
			m.Lose()
		}
	}
	return token, all[1]
}

func TestTokensThatAMajorityLosesAreNotGivenAgain(t *testing.T) {
	for kept := range 3 {
		inBubble(t, 3, func(b *bubble) {
			token, p := b.loseTokens(kept)
			_, hold := lock(b.T, p, "item")
			if hold.Token() <= token {
				b.Errorf("token %d after %d", hold.Token(), token)
			}
			usertest.Unlock(b, hold)
		})
		inBubble(t, 3, func(b *bubble) {
			token, _ := b.loseTokens(kept)
			p := b.process(lockmw.WithQuarantine(lossQuarantine), lockmw.WithLease(lossLease)) // which has no reason to look at the nodes
			fresh := &bubble{T: b.T, nodes: redistest.NewNodes(b.T, 1, redistest.Piped)}
			c := usertest.ClientOf(b, fresh.node(0).NewClient(b, plainConns))
			if err := p.CarryTokens(b.Context(), c); !errors.Is(err, lockmw.ErrUnavailable) {
				b.Errorf("CarryTokens from nodes in quarantine: %v", err)
			}
			time.Sleep(lossQuarantine)
			if err := p.CarryTokens(b.Context(), c); err != nil {
				b.Fatal(err)
			}
			if last := fresh.counter(0); last < token {
				b.Errorf("a new node begins after token %d, the last one was %d", last, token)
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
