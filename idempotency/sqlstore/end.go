package sqlstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/lockmw/go/idempotency"
)

// End implements idempotency.Store. Forget and Leave do not change the record of a run that has committed.
func (s *Store) End(ctx context.Context, e idempotency.End) (bool, error) {
	ok, err := s.end(ctx, &e)
	return ok, failed("end", e.Key, err)
}

func (s *Store) end(ctx context.Context, e *idempotency.End) (bool, error) {
	statement, args := "", []any(nil)
	_, refused := s.refused.LoadAndDelete(e.Run)
	switch e.Outcome {
	case idempotency.Keep:
		from := idempotency.Open
		if refused { // its answer is only true if the transaction was committed nevertheless
			from = idempotency.Committed
		}
		statement, args = s.sql.keep, []any{e.Status, e.Answer, e.TTL.Microseconds(), e.Key, e.Run, from.String()}
	case idempotency.Forget:
		statement, args = s.sql.forget, []any{e.Key, e.Run}
	default:
		statement, args = s.sql.leave, []any{e.Key, e.Run}
	}
	if n, err := execute(ctx, s.db, statement, args...); n > 0 || err != nil {
		return n > 0, err
	}
	// The run may have ended in this way before.
	r, err := read(ctx, s.db, s.sql.look, e.Key)
	if r == nil || err != nil || r.Run != e.Run {
		return false, err
	}
	return r.State == idempotency.Done && e.Outcome == idempotency.Keep && bytes.Equal(r.Answer, e.Answer) || r.State == idempotency.Open && e.Outcome == idempotency.Leave, nil
}

const (
	// voidTTL is how long a record without a run is kept because a Begin of a void run might still arrive.
	voidTTL = time.Minute
	// voidsKept is how long a record that is kept longer knows its void runs.
	voidsKept = time.Hour
)

// Void implements idempotency.Store.
func (s *Store) Void(ctx context.Context, key, run string) error {
	ttl := voidTTL.Microseconds()
	return failed("void", key, s.change(ctx, key, voidTTL, s.sql.void, func(r *row) ([]any, error) {
		r.Record = r.Record.Void(run)
		r.voids = slices.DeleteFunc(r.voids, func(v voidRun) bool { return v.run == run || v.made < r.now-voidsKept.Microseconds() })
		r.voids = append(r.voids, voidRun{run, r.now})
		return append(r.values(), ttl, ttl, key), nil
	}))
}
