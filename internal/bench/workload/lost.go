package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/stat"
	"github.com/lockmw/go/lockmw"
)

// lost: one process holds n keys, and each of n goroutines of another process waits for one of them. Some of the keys are released
// one by one, but the message that wakes the waiter gets lost. The time runs from a release until the waiter holds the key.
func lost(n int) Workload {
	return Workload{
		Name: SizeName("lost", n), About: fmt.Sprintf("%d goroutines wait for a key each, and the messages of some grants get lost", n),
		Processes: 2, Keys: n, Wait: library.Long, Once: true, Long: n != lostLeast && n != lostMost, Runs: only("lockmw"),
		Window: func(d time.Duration) time.Duration {
			return lostPause * time.Duration(min(2+d.Milliseconds()/200, lostLeast))
		},
		Extra: 2 * waitedLimit,
		work: func(w *Worker) error {
			if w.Config.Index == 0 {
				return w.releaseByOrder(n)
			}
			return w.missMessages(n)
		},
		lead: leadLost,
	}
}

const (
	// lostLeast and lostMost are the numbers of keys of a quick run.
	lostLeast = 10
	lostMost  = 1000
	// lostPause is the longest pause before a message gets lost. It is long enough for a process to subscribe anew after the
	// loss before.
	lostPause = 1500 * time.Millisecond
)

// NoticedMillis is the longest time until a waiter held its key: from a release whose message got lost, or from the death of a
// process whose ticket came first.
const NoticedMillis = "noticed_max_ms"

// losses returns how many messages get lost in a window.
func losses(window time.Duration) int { return int(window / lostPause) }

// releaseByOrder holds n keys, and releases one for each order.
func (w *Worker) releaseByOrder(n int) error {
	l, h, err := w.holdKeys(n)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := w.start(); err != nil {
		return err
	}
	for i := range losses(w.Window) {
		if err := w.parent.Await(unlock); err != nil {
			return err
		}
		at := time.Now().UnixNano()
		if err := h.unlock(i); err != nil {
			return err
		}
		if err := w.parent.Send(released, at); err != nil {
			return err
		}
	}
	return w.finish(&Report{})
}

// holdKeys opens a lockmw Client and holds n keys, which it does not renew meanwhile.
func (w *Worker) holdKeys(n int) (*library.Lockmw, *holder, error) {
	l, err := library.OpenLockmw(w.Config, lockmw.WithLease(waitedLease))
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := w.context()
	defer cancel()
	h := &holder{w: w, locker: l, keys: w.keys(n), holds: make([]library.Hold, n)}
	if err := h.each(func(i int) error { return h.lock(ctx, i) }); err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, h, nil
}

// A timedGrant is when a call got its lock, or why it did not.
type timedGrant struct {
	at  time.Time
	err error
}

// missMessages waits for n keys on connections that lose messages, and reports each grant.
func (w *Worker) missMessages(n int) error {
	var lost atomic.Int64
	w.Config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &deafConn{conn, &lost}, err
	}
	l, err := library.OpenLockmw(w.Config)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := w.start(); err != nil {
		return err
	}
	ctx, cancel := w.context()
	defer cancel()
	queued, grants := newGate(n), make(chan timedGrant, n)
	for i, key := range w.keys(n) {
		go func() {
			hold, err := l.LockAnnounced(ctx, key, queued.pass)
			at := time.Now()
			if err == nil {
				w.page.Enter(i)
				w.page.Leave(i)
				err = hold.Unlock()
			}
			grants <- timedGrant{at, err}
		}()
	}
	if got := queued.await(waitedLimit); got < int64(n) {
		return fmt.Errorf("%d of %d calls are queued after %v", got, n, waitedLimit)
	}
	if err := w.parent.Send(waiting, nil); err != nil {
		return err
	}
	for range losses(w.Window) {
		got := <-grants
		if got.err != nil {
			return fmt.Errorf("waiting: %w", got.err)
		}
		if err := w.parent.Send(acquired, got.at.UnixNano()); err != nil {
			return err
		}
	}
	if want := losses(w.Window); lost.Load() < int64(want) {
		return fmt.Errorf("%d of %d messages were lost", lost.Load(), want)
	}
	return w.finish(&Report{})
}

// A deafConn loses whatever arrives together with a message of a channel. Answers to commands come on other connections.
type deafConn struct {
	net.Conn
	lost *atomic.Int64
}

// Read implements net.Conn.
func (c *deafConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if !bytes.Contains(b[:n], []byte("message\r\n")) {
			return n, err
		}
		c.lost.Add(1)
	}
}

// leadLost times the waits for some keys.
func leadLost(ctx context.Context, m *Measurement) error {
	if err := m.begin(); err != nil {
		return err
	}
	holder, waiter := m.crew.Members()[0], m.crew.Members()[1]
	if err := waiter.Expect(waiting, nil); err != nil {
		return err
	}
	var latency stat.Latency
	for range losses(m.window) {
		// A different part of the time between two checks in each case.
		if err := library.Pause(ctx, lostPause/2+rand.N(lostPause/2)); err != nil {
			return err
		}
		took, err := passOver(holder, waiter)
		if err != nil {
			return err
		}
		latency.Record(took)
	}
	if err := m.collect(); err != nil {
		return err
	}
	r := &m.round.Reports[1]
	r.Latency = latency
	r.More = map[string]float64{NoticedMillis: millis(latency.Max())}
	return nil
}
