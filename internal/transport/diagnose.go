package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

const (
	// DiagnoseTimeout is how long a diagnosis may take, because it delays the end of a call.
	DiagnoseTimeout = 25 * time.Millisecond
	// diagnoseSteps are its steps, see inTime.
	diagnoseSteps = 5
	// freshFor is how long a finding is valid for other calls.
	freshFor = 100 * time.Millisecond
)

// Diagnoses find out why servers do not answer. go-redis dials and retries for seconds before it reports that connections are
// refused, and most calls do not wait that long. A diagnosis opens a connection of its own. That may take longer than the calls
// wait, because with TLS go-redis' Dialer ignores its context. The zero value is ready to use. Safe for concurrent use.
type Diagnoses struct {
	wg sync.WaitGroup // of connections in progress, and of pending reports

	mu      sync.Mutex
	stopped bool
	latest  map[pooled]*diagnosis // by the client of a server
}

// A diagnosis is the latest connection to a server.
type diagnosis struct {
	over chan struct{} // closed at its end; nil: it has ended
	at   time.Time     // when the finding was made
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

// Explain adds the reason why the server of a client does not answer to core.ErrNoAnswer, to the end of a connection, and to the
// error of an exhausted connection pool. The reason shows whether there is an outage.
func (n *Diagnoses) Explain(rdb any, err error) error {
	client, ok := rdb.(pooled)
	if !ok || !IsUnexplained(err) {
		return err
	}
	found, noConnection := n.connect(client), IsPoolTimeout(err)
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

// ExplainAsync calls told with the result of Explain, in the background if that takes time.
func (n *Diagnoses) ExplainAsync(rdb any, err error, told func(explained error)) {
	n.mu.Lock()
	inBackground := IsUnexplained(err) && !n.stopped
	if inBackground {
		n.wg.Go(func() { told(n.Explain(rdb, err)) })
	}
	n.mu.Unlock()
	if !inBackground {
		told(err)
	}
}

// connect returns the finding of a new connection, or a fresh one. It does not wait for long.
func (n *Diagnoses) connect(client pooled) finding {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.latest[client]
	if k == nil {
		k = &diagnosis{}
		if n.latest == nil {
			n.latest = make(map[pooled]*diagnosis)
		}
		n.latest[client] = k
	}
	if k.over == nil && !n.stopped && !k.isFresh() {
		k.over = make(chan struct{})
		n.wg.Go(func() { n.run(k, client.Options()) })
	}
	if over := k.over; over != nil {
		n.mu.Unlock()
		inTime(over)
		n.mu.Lock()
	}
	if k.isFresh() {
		return k.finding
	}
	return finding{}
}

// run makes the connection of k.
func (n *Diagnoses) run(k *diagnosis, o *redis.Options) {
	found := ping(o)
	n.mu.Lock()
	defer n.mu.Unlock()
	close(k.over)
	k.finding, k.at, k.over = found, time.Now(), nil
}

func (k *diagnosis) isFresh() bool { return !k.at.IsZero() && time.Since(k.at) <= freshFor }

// Stop returns when no connection is in progress, and prevents further ones.
func (n *Diagnoses) Stop() {
	n.mu.Lock()
	n.stopped = true
	n.mu.Unlock()
	n.wg.Wait()
}

var errNoRedis = errors.New("the server does not speak plaintext Redis; is TLS on?")

// ping connects to the server and sends a PING.
func ping(o *redis.Options) finding {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dialled := limit(cancel)
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	dialled()
	if err != nil {
		if IsTimeout(err) || errors.Is(err, context.Canceled) {
			return finding{}
		}
		return finding{err: err}
	}
	defer func() { _ = conn.Close() }()
	defer limit(func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
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

// inTime reports whether over is closed within DiagnoseTimeout. However long this process stands still, only one step passes: when it
// continues, its timers are handled before the answers that have come meanwhile.
func inTime(over <-chan struct{}) bool {
	const step = DiagnoseTimeout / diagnoseSteps
	timer := time.NewTimer(step)
	defer timer.Stop()
	for range diagnoseSteps {
		select {
		case <-over:
			return true
		case <-timer.C:
			timer.Reset(step)
		}
	}
	return false
}

// limit calls tooLate unless done is called in time.
func limit(tooLate func()) (done func()) {
	over := make(chan struct{})
	go func() {
		if !inTime(over) {
			tooLate()
		}
	}()
	return func() { close(over) }
}

// IsUnexplained reports whether a new connection may show more about the error.
func IsUnexplained(err error) bool {
	return errors.Is(err, core.ErrNoAnswer) || isHungUp(err) || IsPoolTimeout(err)
}

// isHungUp reports whether the other side has ended the connection.
func isHungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
