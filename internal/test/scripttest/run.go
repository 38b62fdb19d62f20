package scripttest

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// An Operation is a prepared execution of a script: a *script.Acquire, *script.Poll and so on.
type Operation interface {
	Call(ctx context.Context, s *script.Set, done func(*transport.Reply)) *transport.Call
}

// Send runs op and returns its answer, which may be an error.
func (d *Driver) Send(op Operation) *transport.Reply {
	d.Helper()
	answer := make(chan *transport.Reply, 1)
	d.sender.Start(op.Call(d.Context(), d.scripts, func(r *transport.Reply) { answer <- r }))
	r := <-answer
	if raw := d.answer.get(); r.Err == nil && !isWhole(op, raw) {
		d.Errorf("the answer to a %T has the wrong length: %v", op, raw)
	}
	if d.Tidy {
		d.CheckTidy()
	}
	return r
}

// Eval runs a script with arguments that no caller would send. Name is the name of its file.
func (d *Driver) Eval(name string, keys []string, args ...any) (any, error) {
	d.Helper()
	answer, err := d.Redis.Eval(d.Context(), d.scripts.All()[name].Source, keys, args...).Result()
	if d.Tidy {
		d.CheckTidy()
	}
	return answer, err
}

// SixKeys are the first keys of most scripts, for Eval.
func (d *Driver) SixKeys() []string {
	k := d.Keys
	return []string{k.Holder(), k.Queue(), k.Tickets(), k.Fence(), k.ReadQueue(), k.Alive()}
}

// An Acquire contains the unusual arguments of a *script.Acquire. Zero values are those of a plain call.
type Acquire struct {
	ID         string
	Mode       core.Mode
	Lease      time.Duration // 0: Lease
	Owner      string        // "": the owner of the id
	Try        bool          // do not queue
	Subscribed bool          // its process then beats, and is subscribed
	Tokens     int           // 0: one
	Calls      int           // 0: one
	Runs       bool
	Process    string // whose inbox it has; "": its own process
	Trace      string
	Vote       *core.Vote // nil: the lock is not one of several

	Predecessor      string
	PredecessorPlace int64 // of a lost ticket
	Copied           bool  // two copies of the predecessor's acquire were sent

	Place     string
	KeepPlace time.Duration
}

// Operation returns the operation that sends it.
func (a Acquire) Operation(d *Driver) *script.Acquire {
	op := &script.Acquire{
		Keys: d.Keys, ID: ID(a.ID), Lease: a.Lease, Info: script.HolderInfo{Owner: a.Owner, Place: a.Place}, Mode: a.Mode, Trace: a.Trace,
		Inbox: d.Inbox(cmp.Or(a.Process, a.ID)), SecretOf: SecretOf(cmp.Or(a.Process, a.ID)), MayBatch: a.Runs, Tokens: max(a.Tokens, 1), QueueTokens: max(a.Tokens, 1), Calls: a.Calls,
		Place: a.Place, KeepPlace: a.KeepPlace, Vote: a.Vote,
	}
	if a.Lease == 0 {
		op.Lease = Lease
	}
	if a.Owner == "" {
		op.Info.Owner = "owner-" + a.ID
	}
	if a.Try {
		op.QueueTokens = 0
	}
	if a.Predecessor != "" {
		op.Predecessor = &script.Predecessor{ID: ID(a.Predecessor), Lost: a.PredecessorPlace > 0, Place: a.PredecessorPlace}
		if a.Copied {
			op.Predecessor.ID = Copied(a.Predecessor)
		}
	}
	return op
}

// Secret returns the secret of a process' tickets.
func Secret(process string) (s script.Secret) {
	copy(s[:], fmt.Sprintf("%x", sha256.Sum256([]byte(process))))
	return s
}

// SecretOf gives all tickets of a process its secret.
func SecretOf(process string) func(holder string) script.Secret {
	return func(string) script.Secret { return Secret(process) }
}

// Prove returns the message of a grant as a script writes it for a ticket with the secret.
func Prove(text string, secret script.Secret) string {
	return fmt.Sprintf("%s %x", text, sha1.Sum(append([]byte(text), secret[:]...)))
}

// AcquireOnce runs acquire.lua once.
func (d *Driver) AcquireOnce(a Acquire) (script.Acquired, error) {
	d.Helper()
	reply := d.Send(a.Operation(d))
	if a.Subscribed {
		d.Beat(cmp.Or(a.Process, a.ID), true)
	}
	return script.AcquireAnswer(reply, d.layout.InboxPrefix())
}

// Acquire runs acquire.lua as often as its answers require.
func (d *Driver) Acquire(a Acquire) script.Acquired {
	d.Helper()
	for {
		got, err := d.AcquireOnce(a)
		if err != nil {
			d.Fatalf("acquire of %s: %v", a.ID, err)
		}
		if got.Outcome != script.Again {
			return got
		}
	}
}

// Lock requests the plain lock.
func (d *Driver) Lock(id string) script.Acquired { d.Helper(); return d.Acquire(Acquire{ID: id}) }

// TryLock requests the plain lock without waiting.
func (d *Driver) TryLock(id string) script.Acquired {
	d.Helper()
	return d.Acquire(Acquire{ID: id, Try: true})
}

// Read requests the lock to read.
func (d *Driver) Read(id string) script.Acquired {
	d.Helper()
	return d.Acquire(Acquire{ID: id, Mode: core.Read})
}

// TryRead requests the lock to read, without waiting.
func (d *Driver) TryRead(id string) script.Acquired {
	d.Helper()
	return d.Acquire(Acquire{ID: id, Mode: core.Read, Try: true})
}

// Write requests the lock to write.
func (d *Driver) Write(id string) script.Acquired {
	d.Helper()
	return d.Acquire(Acquire{ID: id, Mode: core.Write})
}

// Fair requests the lock in strict order.
func (d *Driver) Fair(id string) script.Acquired {
	d.Helper()
	return d.Acquire(Acquire{ID: id, Mode: core.Fair})
}

// FairOf is Fair for a call whose ticket may be in a grant batch of its process.
func (d *Driver) FairOf(process, id string) script.Acquired {
	d.Helper()
	return d.Acquire(Acquire{ID: id, Mode: core.Fair, Runs: true, Process: process})
}

// Keep requests the lock in strict order, with a kept place.
func (d *Driver) Keep(id, place string, keep time.Duration) script.Acquired {
	d.Helper()
	return d.Acquire(Acquire{ID: id, Mode: core.Fair, Place: place, KeepPlace: keep})
}

// HandOver requests the plain lock, and gives up the hold of another id.
func (d *Driver) HandOver(from, id string) script.Acquired {
	d.Helper()
	return d.Acquire(Acquire{ID: id, Predecessor: from})
}

// Queue queues many readers; the keys are checked once.
func (d *Driver) Queue(subscribed bool, all ...string) {
	d.Helper()
	d.Untidy(func() {
		for _, id := range all {
			if got := d.Acquire(Acquire{ID: id, Mode: core.Read, Subscribed: subscribed}); got.Outcome != script.Queued {
				d.Fatalf("%s: %+v", id, got)
			}
		}
	})
	if d.Tidy {
		d.CheckTidy()
	}
}

// Polls returns an operation that polls for some ids.
func (d *Driver) Polls(lease time.Duration, ids ...string) *script.Poll {
	op := &script.Poll{Keys: d.Keys}
	for _, id := range ids {
		op.Tickets = append(op.Tickets, script.PolledTicket{ID: ID(id), Lease: lease})
	}
	return op
}

// Poll runs poll.lua once, for some ids or for none.
func (d *Driver) Poll(ids ...string) script.Polled {
	d.Helper()
	p, err := script.PollAnswer(d.Send(d.Polls(Lease, ids...)), len(ids), d.layout.InboxPrefix())
	if err != nil {
		d.Fatalf("poll of %q: %v", ids, err)
	}
	for i, t := range p.Tickets {
		if t.Err != nil {
			d.Errorf("poll of %q: %v", ids[i], t.Err)
		}
	}
	return p
}

// PollOne runs poll.lua for one id, and returns its state.
func (d *Driver) PollOne(id string) script.Outcome { d.Helper(); return d.Poll(id).Tickets[0].Outcome }

// Settle runs poll.lua for no id as long as it answers "more".
func (d *Driver) Settle() (runs int) {
	d.Helper()
	for {
		runs++
		if !d.Poll().More {
			return runs
		}
		if runs > 100 {
			d.Fatal("poll.lua never finishes")
		}
	}
}

// Renew runs renew.lua.
func (d *Driver) Renew(id string, lease time.Duration) script.Renewed {
	d.Helper()
	got, err := script.RenewAnswer(d.Send(&script.Renew{Keys: d.Keys, ID: ID(id), Lease: lease}))
	d.check("renewal", id, err)
	return got
}

// Tell runs report_waiters.lua as the execution with that number for the hold.
func (d *Driver) Tell(id string, calls, number int) script.Outcome {
	d.Helper()
	got, err := script.EndedAnswer(d.Send(&script.ReportWaiters{Keys: d.Keys, ID: ID(id), Calls: calls, Number: number}))
	d.check("telling", id, err)
	return got
}

// PollCalls is Poll for one id that stands for several calls.
func (d *Driver) PollCalls(id string, calls int) script.Outcome {
	d.Helper()
	op := d.Polls(Lease, id)
	op.Tickets[0].Calls = calls
	p, err := script.PollAnswer(d.Send(op), 1, d.layout.InboxPrefix())
	d.check("poll", id, err)
	return p.Tickets[0].Outcome
}

// Release runs release.lua as for most holds.
func (d *Driver) Release(id string) script.Outcome {
	d.Helper()
	return d.release(&script.Release{ID: ID(id)})
}

// ReleaseRun is Release of a hold that was passed to members of its grant batch.
func (d *Driver) ReleaseRun(id string, served ...string) script.Outcome {
	d.Helper()
	return d.release(&script.Release{ID: ID(id), Served: served})
}

// ReleaseMarked is Release of an id whose acquire may have copies in flight.
func (d *Driver) ReleaseMarked(id string) script.Outcome {
	d.Helper()
	return d.release(&script.Release{ID: ID(id), Mark: true})
}

// ReleasePlace is Release of a hold with a kept place.
func (d *Driver) ReleasePlace(id, place string) script.Outcome {
	d.Helper()
	return d.release(&script.Release{ID: ID(id), Place: place})
}

// Linger is Release that keeps the key taken.
func (d *Driver) Linger(id string, linger time.Duration) script.Outcome {
	d.Helper()
	return d.release(&script.Release{ID: ID(id), Linger: linger})
}

func (d *Driver) release(op *script.Release) script.Outcome {
	d.Helper()
	op.Keys = d.Keys
	got, err := script.EndedAnswer(d.Send(op))
	d.check("release", op.ID.String(), err)
	return got
}

// Downgrade runs downgrade.lua.
func (d *Driver) Downgrade(id string) script.Outcome {
	d.Helper()
	got, err := script.EndedAnswer(d.Send(&script.Downgrade{Keys: d.Keys, ID: ID(id)}))
	d.check("downgrade", id, err)
	return got
}

// Cancel runs cancel.lua for an id that is refused from now on.
func (d *Driver) Cancel(id string) script.Outcome {
	d.Helper()
	return d.cancel(&script.Cancel{ID: id, Mark: true})
}

// CancelRun is Cancel of a hold that was passed to members of its grant batch.
func (d *Driver) CancelRun(id string, served ...string) script.Outcome {
	d.Helper()
	return d.cancel(&script.Cancel{ID: id, Mark: true, Served: served})
}

// CancelKeeping is Cancel of a ticket with a kept place.
func (d *Driver) CancelKeeping(id, place string, keep time.Duration) script.Outcome {
	d.Helper()
	return d.cancel(&script.Cancel{ID: id, Mark: true, Place: place, KeepPlace: keep})
}

// CancelPlace is Cancel of a hold with that token, whose kept place ends.
func (d *Driver) CancelPlace(id, place string, token int64) script.Outcome {
	d.Helper()
	return d.cancel(&script.Cancel{ID: id, Mark: true, Place: place, EndPlace: token})
}

func (d *Driver) cancel(op *script.Cancel) script.Outcome {
	d.Helper()
	op.Keys = d.Keys
	got, err := script.EndedAnswer(d.Send(op))
	d.check("cancel", op.ID, err)
	return got
}

// Disown runs disown.lua: ids that begin with stem end, up to a number, except those in use.
func (d *Driver) Disown(stem string, upTo uint64, inUse ...uint64) script.Outcome {
	d.Helper()
	return d.disown(&script.Disown{Stem: script.IDStem(stem), UpTo: upTo, InUse: inUse})
}

func (d *Driver) disown(op *script.Disown) script.Outcome {
	d.Helper()
	op.Keys = d.Keys
	got, err := script.EndedAnswer(d.Send(op))
	d.check("disown", string(op.Stem), err)
	return got
}

// Force runs force.lua.
func (d *Driver) Force(token int64, owner string) script.Outcome {
	d.Helper()
	got, err := script.EndedAnswer(d.Send(&script.Force{Keys: d.Keys, Token: token, Owner: owner}))
	d.check("force", owner, err)
	return got
}

// Begin runs begin.lua for a hold with that token.
func (d *Driver) Begin(id string, token int64, tick core.Tick) script.Began {
	d.Helper()
	got, err := script.BeginAnswer(d.Send(&script.Begin{Keys: d.Keys, ID: ID(id), Token: token, Tick: tick}))
	d.check("begin", id, err)
	return got
}

// Mark runs mark.lua for the hold with that token. It reports whether a later hold has begun the tick.
func (d *Driver) Mark(token int64, tick core.Tick) (again bool) {
	d.Helper()
	again, err := script.MarkAnswer(d.Send(&script.Mark{Keys: d.Keys, Token: token, Tick: tick}))
	d.check("mark", "a run", err)
	return again
}

func (d *Driver) check(what, id string, err error) {
	d.Helper()
	if err != nil {
		d.Fatalf("%s of %s: %v", what, id, err)
	}
}
