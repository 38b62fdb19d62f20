package redlock_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// holderOf returns the holder that the error of a try reports.
func (p *process) holderOf(key string) lockmw.Holder {
	p.b.Helper()
	_, _, err := p.TryLock(p.b.Context(), key)
	e, ok := errors.AsType[*lockmw.Error](err)
	if !ok || !errors.Is(err, lockmw.ErrBusy) || len(e.Holders) != 1 {
		p.b.Fatalf("TryLock: %v, want ErrBusy with one holder", err)
	}
	return e.Holders[0]
}

// The nodes have granted different tokens, each node is unreachable in turn, and one was restarted. All of them report one holder,
// with the token of the hold and one name of its process.
func TestTheHolderOfABusyLockIsTheSameAtEachNode(t *testing.T) {
	for first := range 3 {
		inBubble(t, 3, func(b *bubble) {
			p, q := b.process().warm(), b.process().warm()
			for i := range 3 {
				b.setCounter((first+i)%3, time.Duration(i+1)*10*time.Second)
			}
			_, hold := lock(b.T, p, "item", lockmw.WithLabel("order-7"))
			synctest.Wait()
			want := p.holderOf("item")
			check := func(when string) {
				b.Helper()
				if got := q.holderOf("item"); got.Token != hold.Token() || got.Process != want.Process || got.Label != "order-7" {
					b.Errorf("%s: the holder is %+v; the token is %d, the process %s", when, got, hold.Token(), want.Process)
				}
				for i := range 3 {
					inspector, err := lockmw.NewInspector(b.node(i).NewClient(b, plainConns))
					if err != nil {
						b.Fatal(err)
					}
					status, err := inspector.Get(b.Context(), "item")
					if err != nil || len(status.Holders) != 1 || status.Holders[0].Token != hold.Token() || status.Holders[0].Process != want.Process {
						b.Errorf("%s: node %d shows %+v, %v", when, i, status.Holders, err)
					}
				}
			}
			check("all nodes answer")
			for down := range 3 {
				q.wires[down].Cut()
				check("a node is unreachable")
				time.Sleep(time.Second) // until the process has noticed
				check("it is left out")
				q.wires[down].Restore()
				time.Sleep(time.Second)
			}
			b.restartEmpty(1, p, q)
			time.Sleep(2 * time.Second)
			check("a node was restarted")
			usertest.Unlock(b, hold)
		})
	}
}

// The first node has missed the release of a hold, and another node does not answer: one node names the old holder, and one the new.
func TestANodeThatMissedAReleaseDoesNotNameTheHolder(t *testing.T) {
	for down := 1; down <= 2; down++ {
		inBubble(t, 3, func(b *bubble) {
			p, next, q := b.process().warm(), b.process().warm(), b.process().warm()
			q.wires[down].Cut()
			_, hold := lock(b.T, p, "item", lockmw.WithLabel("order-1"))
			synctest.Wait()
			p.wires[0].Cut()
			usertest.Unlock(b, hold)
			_, hold = lock(b.T, next, "item", lockmw.WithLabel("order-2"))
			synctest.Wait()
			if got := q.holderOf("item"); got.Label != "order-2" {
				b.Errorf("without node %d, the holder is %+v", down, got)
			}
			usertest.Unlock(b, hold)

			p.wires[0].Restore()
			time.Sleep(time.Second)
			_, hold = lock(b.T, p, "task", lockmw.WithMinHold(20*time.Second))
			synctest.Wait()
			p.wires[0].Cut()
			usertest.Unlock(b, hold)
			if got := q.holderOf("task"); !got.Lingers {
				b.Errorf("without node %d, the holder is %+v", down, got)
			}
		})
	}
}
