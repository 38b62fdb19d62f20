package idempotency

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/lockmw"
)

// redisRecords are records in Redis, next to the locks. A record is read and opened in the same execution that takes the lock, and
// ends in the one that releases it.
type redisRecords struct {
	locker  lockmw.Locker
	kind    kinds.Locker // that takes the locks of locker
	locks   core.RecordLocks
	options []lockmw.Option
}

func (s *redisRecords) lock(ctx context.Context, c *claim) (context.Context, *lockmw.Hold, *Record, error) {
	c.redis = &core.RecordClaim{
		Run: c.Run, Fingerprint: c.Fingerprint.String(), Over: c.Over, MaxSilent: c.MaxSilent, TTL: c.TTL,
	}
	held, hold, err := s.locker.Lock(ctx, c.Key, slices.Concat(s.options, c.lock, []lockmw.Option{s.kind.WithRecord(c.redis)})...)
	if settled, ok := errors.AsType[*core.SettledError](err); ok {
		rec := fromCore(settled.Record)
		return nil, nil, &rec, nil
	}
	if err != nil {
		return nil, nil, nil, err
	}
	var ok bool
	if c.record, ok = s.kind.RecordOf(hold, c.redis); !ok {
		_ = hold.Unlock() // nothing has run
		return nil, nil, nil, fmt.Errorf("%w: the context already holds the lock of the key, or the Locker does not pass options on", lockmw.ErrInvalidOption)
	}
	if earlier, opened := c.record.Opened(); opened {
		return held, hold, &Record{State: Open, Fingerprint: c.Fingerprint, Run: c.Run, Token: hold.Token(), Earlier: earlier}, nil
	}
	return held, hold, nil, nil
}

func (s *redisRecords) begin(held context.Context, _ *lockmw.Hold, c *claim) (Record, error) {
	rec, err := c.record.BeginRecord(held, c.redis)
	if err != nil {
		return Record{}, err
	}
	return fromCore(rec), nil
}

// void lets the release make the run void, which may have begun.
func (s *redisRecords) void(_ context.Context, hold *lockmw.Hold, c *claim, _ error) {
	c.record.EndWith(&core.RecordEnd{Run: c.Run, Outcome: "void"})
	_ = hold.Unlock()
}

func (s *redisRecords) finish(run *Run, e End) (bool, error) {
	run.claim.record.EndWith(e.toCore())
	_ = run.hold.Unlock() // a failed release only delays the next call
	return run.claim.record.Recorded()
}

func (s *redisRecords) End(ctx context.Context, e End) (bool, error) {
	return s.locks.EndRecord(ctx, e.Key, e.toCore())
}

func (e *End) toCore() *core.RecordEnd {
	outcome := [...]string{Keep: "keep", Forget: "forget", Leave: "leave"}[e.Outcome]
	return &core.RecordEnd{Run: e.Run, Outcome: outcome, TTL: e.TTL, Status: e.Status, Answer: e.Answer}
}

func fromCore(r *core.Record) Record {
	rec := Record{Run: r.Run, Token: r.Token, Earlier: r.Earlier, Silent: r.Silent, Returned: r.Returned, Began: r.Began, Answer: r.Answer}
	switch r.State {
	case core.RecordOpen:
		rec.State = Open
	case core.RecordDone:
		rec.State = Done
	}
	// One that cannot be read, such as a longer one, matches no request.
	if f, err := hex.DecodeString(r.Fingerprint); err == nil && len(f) == len(rec.Fingerprint) {
		rec.Fingerprint = Fingerprint(f)
	}
	return rec
}
