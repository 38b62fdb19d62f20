package engine

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

// errSilent is the error of a call whose time was over before the server had answered.
var errSilent = fmt.Errorf("%w: it has not answered yet", core.ErrUnavailable)

const (
	// lookTimeout is how long a look at the server may take: it delays the end of a call.
	lookTimeout = 25 * time.Millisecond
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
	err     error
}

// explain adds what a connection of its own meets to errSilent, and to the end of a connection.
func (k *look) explain(rdb redis.UniversalClient, err error) error {
	client, ok := rdb.(*redis.Client)
	if !ok || !isUnexplained(err) {
		return err
	}
	if over := k.begin(client.Options()); over != nil {
		timer := time.NewTimer(lookTimeout)
		defer timer.Stop()
		select {
		case <-over:
		case <-timer.C:
		}
	}
	if met := k.met(); met != nil {
		return fmt.Errorf("%w: %w", err, met)
	}
	return err
}

// tell calls told with what explain returns, in the background if that takes time.
func (k *look) tell(rdb redis.UniversalClient, err error, told func(explained error)) {
	k.mu.Lock()
	inBackground := isUnexplained(err) && !k.stopped
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
		err := meet(o)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.err, k.at, k.over = err, time.Now(), nil
		close(over)
	})
	return over
}

// met returns what was met of late; nil if that is nothing.
func (k *look) met() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.isFresh() {
		return k.err
	}
	return nil
}

func (k *look) isFresh() bool { return !k.at.IsZero() && time.Since(k.at) <= lookedFor }

// stop returns when no connection is under way, and none will be.
func (k *look) stop() {
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	k.wg.Wait()
}

// meet connects to the server and says a word to it. It returns nil if nothing is wrong with that, or it takes
// too long.
func meet(o *redis.Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		if isTimeout(err) {
			return nil
		}
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(lookTimeout))
	if _, err := io.WriteString(conn, "*1\r\n$4\r\nPING\r\n"); err != nil {
		return nil
	}
	answer := make([]byte, 1)
	switch _, err := io.ReadFull(conn, answer); {
	case err == nil && (answer[0] == '+' || answer[0] == '-'), isTimeout(err):
		return nil
	case err == nil:
		return errors.New("what answers is no Redis without TLS")
	default:
		return errors.New("it closes the connection, perhaps because it wants TLS")
	}
}

// isUnexplained reports whether a connection of one's own may say more.
func isUnexplained(err error) bool { return errors.Is(err, errSilent) || isHungUp(err) }

// isHungUp reports whether the other side has ended the connection.
func isHungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// explain adds to the error of a call that ended without an answer why there is none.
func (e *Engine) explain(err error) error {
	failure, ok := errors.AsType[*core.AcquireError](err)
	if !ok {
		return err
	}
	explained := *failure // which other calls may have
	explained.Err = e.look.explain(e.rdb, failure.Err)
	return &explained
}
