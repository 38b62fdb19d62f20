package rivermw

import (
	"context"
	"time"

	"github.com/riverqueue/river/rivertype"
)

// Wake makes w wake a job as if this process had snoozed it when it was in the state of row. It returns whether river has not stored
// the snooze yet.
func Wake(ctx context.Context, w *Waker, row *rivertype.JobRow) (again bool, err error) {
	jobs, err := w.wake(ctx, []parkedJob{newParkedJob(row)})
	return len(jobs) > 0, err
}

// Parked returns how many jobs w remembers.
func Parked(w *Waker) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.parked
}

// SetOnTheWay sets how long a job that w has woken counts as on its way to a worker.
func SetOnTheWay(w *Waker, d time.Duration) { w.onTheWay = d }

// SnoozesOf returns how often in a row a job was snoozed because of its lock.
func SnoozesOf(job *rivertype.JobRow) int { return snoozesOf(job).InARow }
