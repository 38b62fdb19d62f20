package lockmw

import (
	"time"

	"github.com/lockmw/go/internal/core"
)

// A Holder is who holds a lock, as far as it can be seen.
type Holder struct {
	Owner       string        // random identity of the logical execution, 32 hex digits
	Process     string        // host, process id and a random part; "local" of a Local
	TraceParent string        // W3C traceparent of the acquisition; "" if it is not traced
	Token       int64         // fencing token of the hold
	Since       time.Time     // when the lock was granted, by the server's clock
	TTL         time.Duration // what is left of the lease
	Label       string        // WithLabel's; "" if there is none
	Fixed       bool          // the lease is not renewed (WithFixedLease): the lock is free when TTL is over, or before
	Lingers     bool          // it was unlocked, and WithMinHold keeps the key taken until TTL is over
	Weight      int           // of a permit: how many of the semaphore's it has; 0: it is a lock
	Slots       string        // of a permit: which these are, such as "0-2,5"; "" if the list is long
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
