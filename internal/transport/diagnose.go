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
	// DiagnoseTimeout is how long a look at the server may take: it delays the end of a call.
	DiagnoseTimeout = 25 * time.Millisecond
	// freshFor is how long what was seen is good for others.
	freshFor = 100 * time.Millisecond
)

// A look tells why the server does not answer. go-redis dials and tries again for seconds before it says that
// connections are refused, and most calls do not wait for that. The connection may take longer than the calls wait for
// it: with TLS, go-redis' Dialer pays no heed to its context.
type diagnosis struct {
	wg sync.WaitGroup // of the connection under way, and of who is to be told

	mu      sync.Mutex
	stopped bool
	over    chan struct{} // closed at the end of the connection under way; nil: there is none
	at      time.Time     // of what was met last
	finding
}

// A finding is what a connection of its own has met.
type finding struct {
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
func (k *diagnosis) explain(rdb any, err error) error {
	client, ok := rdb.(pooled)
	if !ok || !IsUnexplained(err) {
		return err
	}
	k.connect(client)
	found, noConnection := k.latest(), IsPoolTimeout(err)
	switch {
	case found.err != nil && (IsFinal(found.err) || errors.Is(found.err, errNoRedis)):
		return core.WithFault(fmt.Errorf("%w: %w", err, found.err), core.Lasting)
	case found.err != nil:
		return core.WithFault(fmt.Errorf("%w: %w", err, found.err), core.Outage)
	case found.answers && (noConnection || errors.Is(err, core.ErrSilent) && isExhausted(client)):
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
func (k *diagnosis) connect(client pooled) {
	if over := k.begin(client.Options()); over != nil {
		timer := time.NewTimer(DiagnoseTimeout)
		defer timer.Stop()
		select {
		case <-over:
		case <-timer.C:
		}
	}
}

// tell calls told with what explain returns, in the background if that takes time.
func (k *diagnosis) tell(rdb any, err error, told func(explained error)) {
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
func (k *diagnosis) begin(o *redis.Options) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over != nil || k.stopped || k.isFresh() {
		return k.over
	}
	over := make(chan struct{})
	k.over = over
	k.wg.Go(func() {
		m := ping(o)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.finding, k.at, k.over = m, time.Now(), nil
		close(over)
	})
	return over
}

// met returns what was met of late.
func (k *diagnosis) latest() finding {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.isFresh() {
		return k.finding
	}
	return finding{}
}

func (k *diagnosis) isFresh() bool { return !k.at.IsZero() && time.Since(k.at) <= freshFor }

// stop returns when no connection is under way, and none will be.
func (k *diagnosis) stop() {
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	k.wg.Wait()
}

var errNoRedis = errors.New("what answers is no Redis without TLS")

// meet connects to the server and sends a PING.
func ping(o *redis.Options) finding {
	ctx, cancel := context.WithTimeout(context.Background(), DiagnoseTimeout)
	defer cancel()
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		if IsTimeout(err) {
			return finding{}
		}
		return finding{err: err}
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(DiagnoseTimeout))
	if _, err := io.WriteString(conn, "*1\r\n$4\r\nPING\r\n"); err != nil {
		return finding{}
	}
	answer := make([]byte, len("-NOAUTH"))
	switch n, err := io.ReadFull(conn, answer); {
	case n > 0 && (answer[0] == '+' || answer[0] == '-'):
		return finding{answers: answer[0] == '+' || string(answer) == "-NOAUTH"} // else LOADING, BUSY …
	case n > 0:
		return finding{err: errNoRedis}
	case IsTimeout(err):
		return finding{}
	default:
		return finding{err: errors.New("it closes the connection, perhaps because it wants TLS")}
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

// Diagnoses tell why servers do not answer. The zero value is ready to use; they are safe for concurrent use.
type Diagnoses struct {
	mu      sync.Mutex
	stopped bool
	all     map[any]*diagnosis // by the client of a server
}

// Explain adds why the server of a client does not answer to an error that does not say so.
func (n *Diagnoses) Explain(client any, err error) error { return n.of(client).explain(client, err) }

// Tell calls told with what Explain returns, in the background if that takes time.
func (n *Diagnoses) Tell(client any, err error, told func(explained error)) {
	n.of(client).tell(client, err, told)
}

func (n *Diagnoses) of(client any) *diagnosis {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.all[client]
	if k == nil {
		k = &diagnosis{stopped: n.stopped}
		if n.all == nil {
			n.all = make(map[any]*diagnosis)
		}
		n.all[client] = k
	}
	return k
}

// Stop returns when no connection is under way, and none will be.
func (n *Diagnoses) Stop() {
	n.mu.Lock()
	n.stopped = true
	all := slices.Collect(maps.Values(n.all))
	n.mu.Unlock()
	for _, k := range all {
		k.stop()
	}
}
