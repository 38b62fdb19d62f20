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
		statement, args = s.sql.keep, []any{e.Status, e.Answer}
		if e.TTL > 0 {
			statement, args = s.sql.keepFor, append(args, e.TTL.Microseconds())
		}
		args = append(args, e.Key, e.Run, from.String())
	case idempotency.Forget:
		statement, args = s.sql.forget, []any{e.Key, e.Run}
	default:
		statement, args = s.sql.leave, []any{e.Key, e.Run}
	}
	res, err := s.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, err
	}
	if ok, err := changed(res); ok || err != nil {
		return ok, err
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
	return failed("void", key, s.void(ctx, key, run))
}

func (s *Store) void(ctx context.Context, key, run string) error {
	for range tries {
		r, err := read(ctx, s.db, s.sql.look, key)
		if err != nil {
			return err
		}
		if r == nil {
			void := voidRun{run, time.Now().UnixMicro()}
			if inserted, err := s.insert(ctx, key, &row{voids: []voidRun{void}}, voidTTL); inserted || err != nil {
				return err
			}
		}
		if found, err := s.voidLocked(ctx, key, run); found || err != nil {
			return err
		}
	}
	return errUnsteady
}

// voidLocked makes a run void in a row that exists. found is whether it does.
func (s *Store) voidLocked(ctx context.Context, key, run string) (found bool, err error) {
	err = s.inTx(ctx, func(q querier) error {
		r, err := read(ctx, q, s.sql.lock, key)
		if r == nil || err != nil {
			return err
		}
		found = true
		r.Record = r.Record.Void(run)
		r.voids = slices.DeleteFunc(r.voids, func(v voidRun) bool { return v.run == run || v.made < r.now-voidsKept.Microseconds() })
		r.voids = append(r.voids, voidRun{run, r.now})
		returned := 0
		if r.Returned {
			returned = 1
		}
		ttl := voidTTL.Microseconds()
		_, err = q.ExecContext(ctx, s.sql.void, r.State.String(), fingerprint(&r.Record), r.Run, r.Token, r.Earlier, r.Silent, returned,
			formatVoids(r.voids), ttl, ttl, key)
		return err
	})
	return found, err
}
