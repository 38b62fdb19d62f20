package script

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// An AcquireAll takes several free locks, or none (rule 23 of docs/protocol.md). A repeated execution does no harm.
type AcquireAll struct {
	Locks []LockID // on one server, or in one slot of a Cluster; at most core.MaxTogether
	Lease time.Duration
	Info  HolderInfo // information about the holds
	Mode  core.Mode  // not Read
	Trace string     // traceparent stored with the locks
	Inbox any        // the channel for messages about the holds, a string
}

// A LockID is an id and its lock.
type LockID struct {
	Keys *KeySet
	ID   *ID
}

// Call prepares one execution. done is called once, with the answer.
func (a *AcquireAll) Call(ctx context.Context, s *Set, done func(*transport.Reply)) *transport.Call {
	n := len(a.Locks)
	k := transport.NewCall(ctx, s.acquireAll, 3*n+1+5+n, done)
	for _, l := range a.Locks {
		k.AddKeys(l.Keys.six[holderKey])
	}
	for _, l := range a.Locks {
		k.AddKeys(l.Keys.six[queueKey])
	}
	for _, l := range a.Locks {
		k.AddKeys(l.Keys.doneOf(l.ID))
	}
	k.AddKeys(a.Locks[0].Keys.six[fenceKey])
	k.Add(a.Lease.Milliseconds(), a.Inbox, a.Info.String(), a.Mode.String(), traceField(a.Trace))
	copies := make(counters, n)
	for i, l := range a.Locks {
		k.Add(l.ID)
		copies[i] = &l.ID.copies
	}
	k.Copies = copies
	return k
}

// AcquireAllAnswer reads the answer to an AcquireAll of n locks: a grant for each lock, or nil if it has taken none.
func AcquireAllAnswer(r *transport.Reply, n int) ([]Grant, error) {
	if r.Err == nil && r.Single() == any(int64(notTaken)) {
		return nil, nil
	}
	token, once := readToken(r)
	if !once {
		token = r.Int()
	}
	grants := make([]Grant, n)
	for i := range grants {
		grants[i] = Grant{Token: token, Tokens: 1}
		if !once {
			grants[i].Waiting = r.Int()
		}
	}
	if r.Err == nil && !grants[0].isValid() {
		r.SetMalformed()
	}
	if r.Err != nil {
		return nil, r.Err
	}
	return grants, nil
}

// notTaken is the answer of acquire_all.lua if it has written nothing.
const notTaken = -1

// counters count the copies of a command with several ids. Each copy counts for all of them.
type counters []*atomic.Int32

// Load returns how often the command was written.
func (c counters) Load() int32 { return c[0].Load() }

// Add adds n to all of them.
func (c counters) Add(n int32) (sum int32) {
	for _, one := range c {
		sum = one.Add(n)
	}
	return sum
}
