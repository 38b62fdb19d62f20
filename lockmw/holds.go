package lockmw

import (
	"errors"
	"slices"

	"github.com/lockmw/go/internal/core"
)

// Holds are the holds of several keys, as returned by LockAll.
type Holds []*Hold

// Unlock unlocks all holds, the last one first, and joins their errors: see Hold.Unlock. Locks that LockAll can take together
// are released together, in one round trip.
func (hs Holds) Unlock() error {
	unlocks := make([]unlocking, 0, len(hs))
	for _, h := range slices.Backward(hs) {
		unlocks = append(unlocks, h.beginUnlock())
	}
	var errs []error
	for i := range unlocks {
		if unlocks[i].releases() && !unlocks[i].sent {
			release(unlocks[i:])
		}
		errs = append(errs, unlocks[i].end())
	}
	return errors.Join(errs...)
}

// release releases the lock of the first unlock. Locks of the other unlocks that belong to the same Locks are released together
// with it.
func release(unlocks []unlocking) {
	locker := unlocks[0].hold.lock.locker
	many, _ := locker.locks.(core.ManyLocks)
	if many == nil {
		unlocks[0].release()
		return
	}
	var together []*unlocking
	var holds []core.Hold
	for i := range unlocks {
		u := &unlocks[i]
		if u.releases() && !u.sent && u.hold.lock.isOf(many) && u.hold.lock.locker.unlockTimeout == locker.unlockTimeout {
			u.sent = true
			together, holds = append(together, u), append(holds, u.hold.lock.backend)
		}
	}
	for i, result := range many.ReleaseAll(holds, locker.unlockTimeout) {
		together[i].result = result
	}
}
