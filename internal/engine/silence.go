package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
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
// connections are refused, and most calls do not wait for that.
type look struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// explain adds to errSilent what a connection of its own meets.
func (k *look) explain(rdb redis.UniversalClient, err error) error {
	client, ok := rdb.(*redis.Client)
	if !ok || !errors.Is(err, errSilent) {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at.IsZero() || time.Since(k.at) > lookedFor {
		k.err = meet(client.Options())
		k.at = time.Now()
	}
	if k.err == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, k.err)
}

// meet connects to the server and says a word to it. It returns nil if nothing is wrong with that, or it takes
// too long.
func meet(o *redis.Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		if ctx.Err() != nil {
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
		return fmt.Errorf("it closes the connection, perhaps because it wants TLS: %w", err)
	}
}

// explain adds to the error of a call that ended without an answer why there is none.
func (e *Engine) explain(err error) error {
	if failure, ok := errors.AsType[*core.AcquireError](err); ok {
		failure.Err = e.look.explain(e.rdb, failure.Err)
	}
	return err
}
