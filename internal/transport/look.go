package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

const (
	// LookTimeout is how long a look at the server may take: it delays the end of a call.
	LookTimeout = 25 * time.Millisecond
	// lookedFor is how long what was seen is good for others.
	lookedFor = 100 * time.Millisecond
)

// A look tells why the server does not answer. go-redis dials and tries again for seconds before it says that
// connections are refused, and most calls do not wait for that. The connection may take longer than the calls wait for
// it: with TLS, go-redis' Dialer pays no heed to its context.
type look struct {
	wg sync.WaitGroup // of the connection under way, and of who is to be told

	mu      sync.Mutex
	stopped bool
	over    chan struct{} // closed at the end of the connection under way; nil: there is none
	at      time.Time     // of what was met last
	meeting
}

// A meeting is what a connection of its own has met.
type meeting struct {
	answers bool  // the server does its work
	err     error // what is wrong; nil: nothing, or it takes too long
}

// A pooled is the client of one server.
type pooled interface {
	Options() *redis.Options
	PoolStats() *redis.PoolStats
}

// explain adds what a connection of its own meets to core.ErrSilent, to the end of a connection, and to what the client says when its
// pool of connections is exhausted: that tells whether there is an outage.
func (k *look) explain(rdb any, err error) error {
	client, ok := rdb.(pooled)
	if !ok || !IsUnexplained(err) {
		return err
	}
	k.meet(client)
	met, noConnection := k.met(), IsPoolTimeout(err)
	switch {
	case met.err != nil && (IsFinal(met.err) || errors.Is(met.err, errNoRedis)):
		return core.WithFault(fmt.Errorf("%w: %w", err, met.err), core.Lasting)
	case met.err != nil:
		return core.WithFault(fmt.Errorf("%w: %w", err, met.err), core.Outage)
	case met.answers && (noConnection || errors.Is(err, core.ErrSilent) && isExhausted(client)):
		return core.WithFault(fmt.Errorf("%w: the server answers a new connection, but all %d of the client's pool are in use",
			err, client.Options().PoolSize), core.Exhausted)
	case noConnection:
		return core.WithFault(err, core.Outage)
	}
	return err
}

// isExhausted reports whether all connections of a client are in use.
func isExhausted(client pooled) bool {
	pool := client.PoolStats()
	return int(pool.TotalConns) >= client.Options().PoolSize && pool.IdleConns == 0
}

// meet waits for what a connection of its own meets, unless that was seen of late.
func (k *look) meet(client pooled) {
	if over := k.begin(client.Options()); over != nil {
		timer := time.NewTimer(LookTimeout)
		defer timer.Stop()
		select {
		case <-over:
		case <-timer.C:
		}
	}
}

// tell calls told with what explain returns, in the background if that takes time.
func (k *look) tell(rdb any, err error, told func(explained error)) {
	k.mu.Lock()
	inBackground := IsUnexplained(err) && !k.stopped
	if inBackground {
		k.wg.Go(func() { told(k.explain(rdb, err)) })
	}
	k.mu.Unlock()
	if !inBackground {
		told(err)
	}
}

// begin connects to the server unless that is under way. It returns what is closed in the end; nil if there is nothing
// to wait for.
func (k *look) begin(o *redis.Options) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over != nil || k.stopped || k.isFresh() {
		return k.over
	}
	over := make(chan struct{})
	k.over = over
	k.wg.Go(func() {
		m := meet(o)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.meeting, k.at, k.over = m, time.Now(), nil
		close(over)
	})
	return over
}

// met returns what was met of late.
func (k *look) met() meeting {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.isFresh() {
		return k.meeting
	}
	return meeting{}
}

func (k *look) isFresh() bool { return !k.at.IsZero() && time.Since(k.at) <= lookedFor }

// stop returns when no connection is under way, and none will be.
func (k *look) stop() {
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	k.wg.Wait()
}

var errNoRedis = errors.New("what answers is no Redis without TLS")

// meet connects to the server and sends a PING.
func meet(o *redis.Options) meeting {
	ctx, cancel := context.WithTimeout(context.Background(), LookTimeout)
	defer cancel()
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		if IsTimeout(err) {
			return meeting{}
		}
		return meeting{err: err}
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(LookTimeout))
	if _, err := io.WriteString(conn, "*1\r\n$4\r\nPING\r\n"); err != nil {
		return meeting{}
	}
	answer := make([]byte, len("-NOAUTH"))
	switch n, err := io.ReadFull(conn, answer); {
	case n > 0 && (answer[0] == '+' || answer[0] == '-'):
		return meeting{answers: answer[0] == '+' || string(answer) == "-NOAUTH"} // else LOADING, BUSY …
	case n > 0:
		return meeting{err: errNoRedis}
	case IsTimeout(err):
		return meeting{}
	default:
		return meeting{err: errors.New("it closes the connection, perhaps because it wants TLS")}
	}
}

// IsUnexplained reports whether a connection of one's own may say more.
func IsUnexplained(err error) bool {
	return errors.Is(err, core.ErrSilent) || isHungUp(err) || IsPoolTimeout(err)
}

// isHungUp reports whether the other side has ended the connection.
func isHungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Looks tell why servers do not answer. The zero value is ready to use; they are safe for concurrent use.
type Looks struct {
	mu      sync.Mutex
	stopped bool
	looks   map[any]*look // by the client of a server
}

// Explain adds why the server of a client does not answer to an error that does not say so.
func (n *Looks) Explain(client any, err error) error { return n.of(client).explain(client, err) }

// Tell calls told with what Explain returns, in the background if that takes time.
func (n *Looks) Tell(client any, err error, told func(explained error)) {
	n.of(client).tell(client, err, told)
}

func (n *Looks) of(client any) *look {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.looks[client]
	if k == nil {
		k = &look{stopped: n.stopped}
		if n.looks == nil {
			n.looks = make(map[any]*look)
		}
		n.looks[client] = k
	}
	return k
}

// Stop returns when no connection is under way, and none will be.
func (n *Looks) Stop() {
	n.mu.Lock()
	n.stopped = true
	looks := slices.Collect(maps.Values(n.looks))
	n.mu.Unlock()
	for _, k := range looks {
		k.stop()
	}
}
