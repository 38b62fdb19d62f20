package grpcmw

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/middleware"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

const defaultMaxHold = 5 * time.Minute

// Unary returns an interceptor that handles each call under the lock of its key. The handler's context carries the hold
// (lockmw.FromContext, lockmw.Held) and ends with cause lockmw.ErrLost if the lock is lost. The lock is released when the handler
// returns or panics; a panic then continues.
//
// By default a call does not wait for its lock (lockmw.WithWait), and holds it for at most 5 minutes (lockmw.WithMaxHold).
//
// Unary panics if l is nil or an option is invalid. lockmw.WithPlace is invalid here, because all calls would share one place in
// the queue. The interceptor is safe for concurrent use.
func Unary(l lockmw.Locker, keys Keys, opts ...lockmw.Option) grpc.UnaryServerInterceptor {
	g := newGuard("Unary", l, keys, opts)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		keyOf, locked := keys[info.FullMethod]
		if !locked {
			return handler(ctx, req)
		}
		ctx, hold, err := g.lock(ctx, keyOf, req)
		if err != nil {
			return nil, err
		}
		defer func() {
			if isLost(ctx, hold) {
				resp, err = nil, errLost
			}
		}()
		return handler(ctx, req)
	}
}

// Stream is Unary for streaming calls: the lock is held until the handler returns, and the context of the stream carries the hold.
//
// If only the server streams, the lock is requested when the request message has arrived, before the method is called. If the
// client streams, the lock is requested first, so its key cannot depend on a message: see ForContext.
func Stream(l lockmw.Locker, keys Keys, opts ...lockmw.Option) grpc.StreamServerInterceptor {
	g := newGuard("Stream", l, keys, opts)
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		keyOf, locked := keys[info.FullMethod]
		if !locked {
			return handler(srv, stream)
		}
		s := &lockedStream{ServerStream: stream}
		lock := func(in any) (err error) {
			s.ctx, s.hold, err = g.lock(stream.Context(), keyOf, in)
			return err
		}
		if !info.IsClientStream {
			s.onRequest = lock
		} else if err := lock(nil); err != nil {
			return err
		}
		defer func() {
			if isLost(s.Context(), s.hold) {
				err = errLost
			}
		}()
		return handler(srv, s)
	}
}

// A lockedStream is a stream whose context carries its hold.
type lockedStream struct {
	grpc.ServerStream
	ctx       context.Context // nil before the lock is taken
	hold      *lockmw.Hold
	onRequest func(in any) error // takes the lock; nil if that has been done
}

func (s *lockedStream) Context() context.Context {
	if s.ctx == nil {
		return s.ServerStream.Context()
	}
	return s.ctx
}

// RecvMsg also takes the lock if that needs the request message, which the code that protoc generates receives before it calls the
// method.
func (s *lockedStream) RecvMsg(in any) error {
	err := s.ServerStream.RecvMsg(in)
	if err != nil || s.onRequest == nil {
		return err
	}
	lock := s.onRequest
	s.onRequest = nil
	return lock(in)
}

// A guard takes locks for calls.
type guard struct {
	locks  lockmw.Locker
	policy lockmw.Option
}

func newGuard(name string, l lockmw.Locker, keys Keys, opts []lockmw.Option) *guard {
	option.NotNil(l, "grpcmw: "+name+": the Locker is nil")
	for method, key := range keys {
		if key == nil {
			panic(fmt.Sprintf("grpcmw: %s: the key function of %s is nil", name, method))
		}
	}
	if _, err := middleware.CheckLock(l, opts, "WithPlace: all calls would share one place in the queue"); err != nil {
		panic(fmt.Errorf("grpcmw: %s: %w", name, err))
	}
	defaults := lockmw.WithDefaults(lockmw.WithWait(0), lockmw.WithMaxHold(defaultMaxHold))
	return &guard{l, lockmw.JoinOptions(append([]lockmw.Option{defaults}, opts...)...)}
}

// lock returns the context and the hold of a call, or the status for a call that is not handled: a run of Idempotent outside has
// done nothing. A call without a lock has a nil hold.
func (g *guard) lock(ctx context.Context, keyOf lockmw.KeyFunc[any], in any) (context.Context, *lockmw.Hold, error) {
	key, err := keyOf(ctx, in)
	if errors.Is(err, lockmw.ErrNoLock) {
		return ctx, nil, nil
	}
	locked, hold := ctx, (*lockmw.Hold)(nil)
	if err == nil {
		locked, hold, err = g.locks.Lock(ctx, key, g.policy)
	}
	if err == nil && locked.Err() != nil { // granted too late: the call has ended, or the lock is lost again
		err = fmt.Errorf("%w: %w", locked.Err(), context.Cause(locked))
		_ = hold.Unlock() // if this fails, the lock expires
	}
	if err != nil {
		idempotency.NotDone(ctx)
		return ctx, nil, Error(err)
	}
	return locked, hold, nil
}

// isLost releases the hold of a call, and reports whether it was lost while the handler ran, or an outer lock of the call was.
func isLost(ctx context.Context, hold *lockmw.Hold) bool {
	outer := context.Cause(ctx)
	return core.IsLoss(hold.Unlock()) || core.IsLoss(outer)
}
