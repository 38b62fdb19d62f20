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
	// DiagnoseTimeout is how long a diagnosis may take, because it delays the end of a call.
	DiagnoseTimeout = 25 * time.Millisecond
	// freshFor is how long a finding is valid for other calls.
	freshFor = 100 * time.Millisecond
)

// A diagnosis finds out why a server does not answer. go-redis dials and retries for seconds before it reports that connections
// are refused, and most calls do not wait that long. A diagnosis opens a connection of its own. That may take longer than the
// calls wait, because with TLS go-redis' Dialer ignores its context.
type diagnosis struct {
	wg sync.WaitGroup // of the connection in progress, and of pending reports

	mu      sync.Mutex
	stopped bool
	over    chan struct{} // closed at the end of the connection in progress; nil: there is none
	at      time.Time     // when the finding was made
	finding
}

// A finding is the result of one connection.
type finding struct {
	answers bool  // the server works
	err     error // what is wrong; nil: nothing, or it takes too long
}

// A pooled is the client of one server.
type pooled interface {
	Options() *redis.Options
	PoolStats() *redis.PoolStats
}

// explain adds its finding to core.ErrNoAnswer, to the end of a connection, and to the error of an exhausted connection pool. The
// finding shows whether there is an outage.
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
	case found.answers && (noConnection || errors.Is(err, core.ErrNoAnswer) && isExhausted(client)):
		return core.WithFault(fmt.Errorf("%w: the server answers a new connection, but all %d connections of the client's pool are in use",
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

// connect waits for the finding of a new connection, unless there is a fresh one.
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

// explainAsync calls told with the result of explain, in the background if that takes time.
func (k *diagnosis) explainAsync(rdb any, err error, told func(explained error)) {
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

// begin connects to the server, unless that is in progress. It returns a channel that is closed at the end, or nil if there is
// nothing to wait for.
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

// latest returns the last finding if it is fresh.
func (k *diagnosis) latest() finding {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.isFresh() {
		return k.finding
	}
	return finding{}
}

func (k *diagnosis) isFresh() bool { return !k.at.IsZero() && time.Since(k.at) <= freshFor }

// stop returns when no connection is in progress, and prevents further ones.
func (k *diagnosis) stop() {
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	k.wg.Wait()
}

var errNoRedis = errors.New("the server does not speak plaintext Redis; is TLS on?")

// ping connects to the server and sends a PING.
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
		return finding{answers: answer[0] == '+' || string(answer) == "-NOAUTH"} // otherwise LOADING, BUSY …
	case n > 0:
		return finding{err: errNoRedis}
	case IsTimeout(err):
		return finding{}
	default:
		return finding{err: errors.New("it closes the connection; does it require TLS?")}
	}
}

// IsUnexplained reports whether a new connection may show more about the error.
func IsUnexplained(err error) bool {
	return errors.Is(err, core.ErrNoAnswer) || isHungUp(err) || IsPoolTimeout(err)
}

// isHungUp reports whether the other side has ended the connection.
func isHungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Diagnoses find out why servers do not answer. The zero value is ready to use. Safe for concurrent use.
type Diagnoses struct {
	mu      sync.Mutex
	stopped bool
	all     map[any]*diagnosis // by the client of a server
}

// Explain adds the reason why the server of a client does not answer to an error that lacks it.
func (n *Diagnoses) Explain(client any, err error) error { return n.of(client).explain(client, err) }

// ExplainAsync calls told with the result of Explain, in the background if that takes time.
func (n *Diagnoses) ExplainAsync(client any, err error, told func(explained error)) {
	n.of(client).explainAsync(client, err, told)
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

// Stop returns when no connection is in progress, and prevents further ones.
func (n *Diagnoses) Stop() {
	n.mu.Lock()
	n.stopped = true
	all := slices.Collect(maps.Values(n.all))
	n.mu.Unlock()
	for _, k := range all {
		k.stop()
	}
}
