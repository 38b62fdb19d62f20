package engine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// A breaker is a hook that answers commands with an error once there is one.
type breaker struct{ err atomic.Pointer[error] }

func (k *breaker) begin(err error) { k.err.Store(&err) }

// DialHook implements redis.Hook.
func (k *breaker) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (k *breaker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := k.err.Load(); err != nil {
			cmd.SetErr(*err)
			return *err
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (k *breaker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := k.err.Load(); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(*err)
			}
			return *err
		}
		return next(ctx, cmds)
	}
}

// lastings are errors that no wait helps against, and whether something that has time and no caller is tried again.
var lastings = map[string]struct {
	err   error
	again bool
}{
	"closed redis client":        {redis.ErrClosed, false},
	"unknown command":            {replyError("ERR unknown command 'evalsha', with args beginning with: "), false},
	"protected mode":             {replyError("DENIED Redis is running in protected mode"), false},
	"no rights":                  {replyError("NOPERM User app has no permissions to run the 'evalsha' command"), false},
	"no password":                {replyError("NOAUTH Authentication required."), false},
	"wrong password":             {replyError("WRONGPASS invalid username-password pair or user is disabled."), false},
	"a password that is unknown": {replyError("ERR AUTH <password> called without any password configured for the default user."), false},
	"no such database":           {replyError("ERR DB index is out of range"), false},
	"a node of a Cluster":        {replyError("CROSSSLOT Keys in request don't hash to the same slot"), false},
	"no Cluster":                 {replyError("ERR This instance has cluster support disabled"), false},
	"another kind of key":        {replyError("WRONGTYPE Operation against a key holding the wrong kind of value"), false},
	"expired certificate":        {&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, false},
	"no TLS":                     {tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, false},
	"a certificate that the server refuses": {
		&net.OpError{Op: "remote error", Err: errors.New("tls: expired certificate")}, false,
	},
	"another version of TLS": {errors.New("tls: server selected unsupported protocol version 301"), false},
	"full memory":            {replyError("OOM command not allowed when used memory > 'maxmemory'."), true},
	"full disk":              {replyError("MISCONF Redis is configured to save RDB snapshots"), true},
	"any other reply":        {replyError("ERR something else"), true},
}

// inLastings runs test once for each lasting error. The breaker is a hook of the client of e.
func inLastings(t *testing.T, test func(b *bubble, e *Engine, again bool, begin func())) {
	for name, tt := range lastings {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				e, k := b.engine(), new(breaker)
				rdb := e.rdb.(*redis.Client)
				rdb.AddHook(k)
				test(b, e, tt.again, func() {
					if errors.Is(tt.err, redis.ErrClosed) {
						_ = rdb.Close()
					} else {
						k.begin(tt.err)
					}
				})
				_ = e.Close()
			})
		})
	}
}

// A call that is queued learns from its next poll what a new call learns from its acquire.
func TestAQueuedCallLearnsWhatANewCallLearns(t *testing.T) {
	for _, mode := range []core.Mode{core.Exclusive, core.Fair, core.Read, core.Permit} {
		t.Run(mode.String(), func(t *testing.T) {
			inLastings(t, func(b *bubble, e *Engine, _ bool, begin func()) {
				want := func() *requester {
					a := b.requester(mode)
					if mode == core.Permit {
						a.Permits, a.Weight = 1, 1
					}
					return a
				}
				first := want()
				if mode == core.Read {
					first.Mode = core.Write
				}
				h := first.acquire(b.T, b.e)
				queued := b.call(e, want())
				b.wantWaiting("the queued call", queued)
				begin()
				start := time.Now()
				fresh := want()
				fresh.Key = "another"
				fails := b.call(e, fresh)
				if !fails.returned() || fails.err == nil || time.Since(start) > 0 {
					b.Fatalf("a new call: %v after %v", fails.err, time.Since(start))
				}
				if transport.IsFull(fails.err) {
					time.Sleep(10 * script.PollInterval)
					b.wantWaiting("the queued call, whose place is kept", queued)
					queued.stop()
					<-queued.done
					b.release(h)
					return
				}
				<-queued.done
				if took := time.Since(start); took > script.PollInterval {
					b.Errorf("the queued call has learned it after %v", took)
				}
				if queued.err == nil || queued.err.Error() != fails.err.Error() || core.FaultOf(queued.err) != core.FaultOf(fails.err) {
					b.Errorf("the queued call returned %v, and a new one %v", queued.err, fails.err)
				}
				b.release(h)
			})
		})
	}
}

// No operation on a hold waits for what does not pass, and Close does not wait either. What has time tries again if it helps.
func TestNothingWaitsForWhatDoesNotPass(t *testing.T) {
	forLong := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Minute)
	}
	for name, op := range map[string]struct {
		run   func(ctx context.Context, b *bubble, h *hold) error
		tries bool // it is tried again by itself, if that may help
	}{
		"Extend":    {func(ctx context.Context, _ *bubble, h *hold) error { return h.Extend(ctx, 2*h.lease.duration) }, false},
		"Downgrade": {func(ctx context.Context, _ *bubble, h *hold) error { return h.Downgrade(ctx) }, false},
		"Release": {func(_ context.Context, _ *bubble, h *hold) error {
			_, err := h.Release(time.Minute)
			return err
		}, false},
		"BeginTick": {func(ctx context.Context, _ *bubble, h *hold) error {
			_, _, err := h.BeginTick(ctx, tickNow())
			return err
		}, true},
		"MarkTick": {func(ctx context.Context, _ *bubble, h *hold) error {
			_, err := h.MarkTick(ctx, tickNow())
			return err
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inLastings(t, func(b *bubble, e *Engine, again bool, begin func()) {
				h := b.requester(core.Write).acquire(b.T, e)
				begin()
				ctx, cancel := forLong(b.Context())
				defer cancel()
				start := time.Now()
				if err := op.run(ctx, b, h); err == nil {
					b.Error("it has succeeded")
				}
				if took := time.Since(start); took > 0 != (again && op.tries) {
					b.Errorf("it has failed after %v", took)
				}
			})
		})
	}
	t.Run("Close", func(t *testing.T) {
		inLastings(t, func(b *bubble, e *Engine, again bool, begin func()) {
			b.requester(core.Write).acquire(b.T, e)
			begin()
			start := time.Now()
			_ = e.Close()
			if took := time.Since(start); !again && took > 2*minCancelDelay {
				b.Errorf("it has taken %v", took)
			}
			synctest.Wait()
		})
	})
}
