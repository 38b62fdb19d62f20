package rivermw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/lockmw/go/internal/middleware"
	"github.com/lockmw/go/lockmw"
)

// snoozesKey is the field of a job's metadata with the number of snoozes in a row because of its lock.
const snoozesKey = "lockmw_snoozes"

// A snoozeCount is the part of a job's metadata that counts its snoozes.
type snoozeCount struct {
	Snoozes int `json:"snoozes"`        // by river: for whatever reason, also by the worker
	InARow  int `json:"lockmw_snoozes"` // because of the lock
}

// snoozesOf returns the counts of a job. A number that somebody else has broken counts as none.
func snoozesOf(job *rivertype.JobRow) (n snoozeCount) {
	_ = json.Unmarshal(job.Metadata, &n)
	return n
}

// setSnoozes makes river store the count when the attempt ends.
func (a attempt) setSnoozes(ctx context.Context, n int) {
	if n != a.snoozes {
		_ = river.MetadataSet(ctx, snoozesKey, n) // fails only where no river runs the job
	}
}

// snooze returns the error that makes river put the job back.
func (g *guard) snooze(ctx context.Context, a attempt, why error) error {
	a.setSnoozes(ctx, a.snoozes+1)
	d := middleware.BackOff(g.minDelay, g.minDelay, g.maxDelay, a.snoozes)
	woken := !errors.Is(why, lockmw.ErrClosed) && g.waker.park(g, a)
	if !woken && g.waker != nil {
		d = min(d, middleware.BackOff(time.Second, time.Second, 15*time.Second, a.snoozes))
	}
	return &snoozeError{why, river.JobSnooze(d)}
}

// A snoozeError ends an attempt that met a busy lock. river finds its own error in it, and snoozes the job.
type snoozeError struct{ why, snooze error }

func (e *snoozeError) Error() string   { return fmt.Sprintf("rivermw: snoozed: %v", e.why) }
func (e *snoozeError) Unwrap() []error { return []error{e.why, e.snooze} }

// IsBusy reports whether err says that a job was only snoozed because it could not get its lock. Middleware that logs or counts
// failures can leave such errors out. It must return them as they are or wrapped with %w.
func IsBusy(err error) bool {
	_, ok := errors.AsType[*snoozeError](err)
	return ok
}
