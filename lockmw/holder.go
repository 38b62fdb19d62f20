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
}

func holdersOf(seen []core.Holder) []Holder {
	if seen == nil {
		return nil
	}
	holders := make([]Holder, len(seen))
	for i, h := range seen {
		holders[i] = Holder(h)
	}
	return holders
}
