package lockmw

import (
	"time"

	"github.com/lockmw/go/internal/core"
)

// A Holder describes one holder of a lock, as stored in Redis.
type Holder struct {
	Owner       string        // random identity of the logical execution, 32 hex digits
	Process     string        // host, process id and a random part; "local" for a Local
	TraceParent string        // W3C traceparent of the acquisition; "" if it is not traced
	Token       int64         // fencing token of the hold
	Since       time.Time     // when the lock was granted, by the server's clock
	TTL         time.Duration // what is left of the lease
	Label       string        // label of the call (WithLabel); "" if it has none
	Fixed       bool          // the lease is not renewed (WithFixedLease): the lock is free after TTL at the latest
	Lingers     bool          // it was unlocked, but WithMinHold keeps the key taken for TTL
	Weight      int           // number of permits of a semaphore; 0 for a lock
	Slots       string        // which permits of the semaphore, such as "0-2,5"; "" for a lock, or if the list is long
}

func holdersOf(seen []core.Holder) []Holder {
	if seen == nil {
		return nil
	}
	holders := make([]Holder, len(seen))
	for i, h := range seen {
		holders[i] = Holder{
			Owner: h.Owner, Process: h.Process, TraceParent: h.TraceParent, Token: h.Token, Since: h.Since, TTL: h.TTL,
			Label: h.Label, Fixed: h.Fixed, Lingers: h.Lingers,
			Weight: h.Weight, Slots: h.Slots,
		}
	}
	return holders
}
