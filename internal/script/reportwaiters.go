package script

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/transport"
)

// A ReportWaiters execution notes how many calls of its own process wait behind a hold, and since when, for tools that inspect
// the lock. A repeated or late execution does no harm.
type ReportWaiters struct {
	Keys   *KeySet
	ID     *ID
	Calls  int
	Waited time.Duration // how long the first call has waited; 0 for a short time
	Number int           // of this execution among the executions for this hold, from 1 on
}

// Call prepares one execution. done is called once, with the answer.
func (t *ReportWaiters) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	k := transport.NewCall(ctx, s.reportWaiters, 1+4, done)
	k.AddKeys(t.Keys.Holder())
	k.Add(t.ID.String(), t.Calls, t.Number, t.Waited.Milliseconds())
	return k
}
