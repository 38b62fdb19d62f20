// Package script is the Redis side of the locks: the Lua scripts, their arguments and their answers. Package transport sends them.
//
// Each operation has a file lua/<operation>.lua and a Go file of the same name. The Go file has a struct
// that fills the script's KEYS and ARGV, and a function that reads its answer:
//
//	acquire    takes a lock, or queues a ticket for it
//	acquireall takes several free locks, or none, by acquire_all.lua
//	poll       keeps queues and asks for the grants of their tickets
//	peek       reads whether all is as it was for tickets
//	beat       shows that a process lives which waits
//	renew      renews the lease of one hold
//	tell       notes how many calls wait behind a hold in its process
//	release    ends a hold and grants the lock to the next ticket
//	releaseall ends several holds, by release_batch.lua
//	downgrade  makes a write hold a read hold
//	cancel     has the server forget an id
//	disown     ends all that a process has left at a key
//	force      takes a lock away from its holder
//	look       reads who is in whose way, for deadlocks
//	status     reads what is stored of a lock, for people who look
//	raise      makes tokens greater than one that was seen
//	begin      begins a tick of a job
//	mark       notes that a tick of a job was run
//
// What several scripts share is in lua/parts. Operations that exist for locks and for the permits of semaphores are one file, which
// names the parts "{kind}": locks or permits. A part whose name begins with fast_ does what is usual in less time; the rest of
// the script can do all of it, and what is not usual. The other files:
//
//	script.go     assembles the scripts
//	permit.go     the keys of a semaphore, and what is said of its permits
//	keys.go       the Redis keys of a lock; slot.go finds their slot in a Cluster
//	id.go         ids of requests, tickets and holds
//	about.go      what a hold says of its caller
//	answer.go     what several answers have in common
//	message.go    reads what scripts publish; secret.go proves who has published it
//	quarantine.go finds out whether a server may have lost locks, by known.lua
package script

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// The protocol's times and limits, as the scripts know them.
const (
	PollInterval = 750 * time.Millisecond // between two peeks, or polls, for a ticket
	KeepInterval = 40 * time.Second       // between two polls that keep a queue in which nothing happens
	BeatInterval = time.Second            // between two signs of life of a process that waits
	AcceptWindow = 3 * time.Second        // how long a grant waits for its process
	DoneTTL      = time.Minute            // how long the mark of an id that is over is kept

	QueueTTL = 2 * time.Minute // how long a queue outlives the last poll
	// A ticket is dead if its process was not seen for DeadAfter, though somebody has beaten all that time, with gaps below beatGap.
	// DeadAfter must exceed beatGap, BeatInterval and the longest pause before a connection is tried again, which is 1 s.
	DeadAfter = 4 * time.Second
	beatGap   = 1500 * time.Millisecond
	seenNow   = 1250 * time.Millisecond // who beats was seen within that time
	forgotten = time.Minute             // after that a process that was not seen is forgotten

	maxReaped  = 32 // dead tickets that one run removes
	maxShown   = 8  // holders that a caller is told of
	doneMillis = int64(DoneTTL / time.Millisecond)

	maxTokenAhead = time.Second      // how far a vote may have the counter ahead of the clock
	maxSinceAhead = time.Millisecond // a token up to that far ahead of the clock also says since when the lock is held

	// MaxAdmitted is how many readers one run admits.
	MaxAdmitted = 128
	// MaxRun is how many tickets one grant is for at most, the first one and its run.
	MaxRun = 32
	// MaxPolled is how many tickets of a key one run of poll.lua asks for.
	MaxPolled = 128
	// MaxPeeked is how many tickets one run of peek.lua is about. Redis reads its arguments, 16 KiB, in one piece.
	MaxPeeked = 128
)

// The scripts, and in lua/parts what several of them share: the line "--@fence" stands for parts/fence.lua, once in a script. The
// line "--+holder" stands for parts/holder.lua wherever it is: that part works on the locals around it, and defines no function.
//
//go:embed lua
var texts embed.FS

// A Set is all scripts. It is not changed after NewSet.
type Set struct {
	locks, permits                                                                   operations
	acquireAll, renew, beat, peek, tell, downgrade, look, raise, begin, mark, status *transport.Script

	acquires, votes, queues, releases *transport.Batch // acquires is for locks that are no votes and in no order
}

// Operations exist for each kind: for locks and for permits.
type operations struct {
	acquire, poll, release, cancel, disown, force *transport.Script
}

// of returns the operations of locks or of permits.
func (s *Set) of(permit bool) *operations {
	if permit {
		return &s.permits
	}
	return &s.locks
}

// callOf prepares a run of a script for a lock or a permit, with the six keys that most work on.
func callOf(
	ctx context.Context, run *transport.Script, keys *KeySet, permit bool, size int, done func(*transport.Reply),
) *transport.Call {
	k, all := transport.NewCall(ctx, run, len(keys.six)+size, done), keys.keysFor(permit)
	k.AddKeys(all[:]...)
	return k
}

// Params are what the scripts are assembled with.
type Params struct {
	// Single says that the server is a plain one: a PUBLISH that reaches nobody means there that
	// nobody listens.
	Single bool
	// The model's tests change these two.
	AcceptWindow, QueueTTL time.Duration
	// MaxAdmitted is how many readers one run admits.
	MaxAdmitted int
	Quarantine  *Quarantine // nil: none
	// Thorough leaves out the short ways for usual cases. Tests compare what they do with what the rest does.
	Thorough bool
	// Prelude is Lua in front of each script. Tests make scripts fail with it.
	Prelude string
}

// DefaultParams returns the protocol's times and limits.
func DefaultParams(single bool) Params {
	return Params{Single: single, AcceptWindow: AcceptWindow, QueueTTL: QueueTTL, MaxAdmitted: MaxAdmitted}
}

// NewSet assembles the scripts. Limits that commands are given are strings: Redis 7.0 takes as long to format a number as to
// run a cheap command.
func NewSet(p Params) *Set {
	limits := fmt.Sprintf("local ACCEPT, QUEUE_TTL, AHEAD, SINCE = '%d', '%d', %d, %d\n"+
		"local BEAT_GAP, RECENT, DEAD, FORGOTTEN, ALIVE_TTL = %d, %d, %d, '%d', '%d'\n"+
		"local MAX_REAPED, MAX_ADMITTED, MAX_SHOWN, LAST_OF_RUN, SINGLE = %d, %d, %d, '%d', %t\n"+
		"local MAX_PERMITS, MAX_SLOTS_TOLD = %d, 200\n", // bytes
		p.AcceptWindow.Milliseconds(), p.QueueTTL.Milliseconds(), maxTokenAhead.Microseconds(), maxSinceAhead.Microseconds(),
		beatGap.Milliseconds(), seenNow.Milliseconds(), DeadAfter.Milliseconds(), forgotten.Milliseconds(), p.QueueTTL.Milliseconds(),
		maxReaped, p.MaxAdmitted, maxShown, MaxRun-1, p.Single, core.MaxPermits)
	with := assembledWith{params: p, quarantine: p.Quarantine != nil}
	with.params.Quarantine = nil
	assemble := func(kind, name string) *transport.Script {
		with.kind, with.name = kind, name
		text := with.text(limits)
		s := *text.script
		if text.grants && p.Quarantine != nil {
			s.Guard = p.Quarantine
		}
		return &s
	}
	operationsOf := func(kind string) operations {
		o := operations{
			acquire: assemble(kind, "acquire"), poll: assemble(kind, "poll"), release: assemble(kind, "release"),
			cancel: assemble(kind, "cancel"), disown: assemble(kind, "disown"), force: assemble(kind, "force"),
		}
		o.acquire.NeedsReplicas = true
		return o
	}
	lock := func(name string) *transport.Script { return assemble("locks", name) }
	s := &Set{
		locks: operationsOf("locks"), permits: operationsOf("permits"),
		acquireAll: lock("acquire_all"), renew: lock("renew"), beat: lock("beat"), peek: lock("peek"), tell: lock("tell"), downgrade: lock("downgrade"),
		look: lock("look"), raise: lock("raise"), begin: lock("begin"), mark: lock("mark"), status: lock("status"),
	}
	for _, on := range []*transport.Script{s.acquireAll, s.renew, s.begin, s.mark} {
		on.NeedsReplicas = true
	}
	s.acquires = acquireBatch(lock("acquire_batch"))
	s.votes = voteBatch(lock("vote_batch"))
	s.queues = queueBatch(lock("queue_batch"))
	s.releases = releaseBatch(lock("release_batch"))
	return s
}

// assembledWith is what the text of a script depends on.
type assembledWith struct {
	params     Params // but for Quarantine
	quarantine bool
	kind, name string // what stands for {kind}, and of the file
}

// An assembledText is a script's text.
type assembledText struct {
	script *transport.Script
	grants bool // it has the part "quarantine"
}

// assembled has all texts by what they depend on: an assembledText by an assembledWith. Clients are made often in tests, and
// share them.
var assembled sync.Map

// text returns the text with the shared parts put in.
func (w assembledWith) text(limits string) assembledText {
	if known, ok := assembled.Load(w); ok {
		return known.(assembledText)
	}
	var t assembledText
	var b strings.Builder
	in := make(map[string]bool) // the parts that are in already
	var add func(file string)
	add = func(file string) {
		text, err := texts.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic(err) // a script names a part that does not exist
		}
		for line := range strings.Lines(string(text)) {
			if part, ok := strings.CutPrefix(strings.TrimSpace(line), "--+"); ok {
				add("parts/" + part)
				continue
			}
			part, ok := strings.CutPrefix(strings.TrimSpace(line), "--@")
			if !ok {
				b.WriteString(line)
				continue
			}
			part = strings.ReplaceAll(part, "{kind}", w.kind)
			fast := strings.HasPrefix(part, "fast_")
			t.grants = t.grants || part == "quarantine"
			switch {
			case in[part]:
			case part == "limits":
				b.WriteString(limits)
			case part == "quarantine" && !w.quarantine:
				b.WriteString("local function may_grant() return true end\n")
			case fast && (w.params.Thorough || !isPart(part)):
			default:
				add("parts/" + part)
			}
			in[part] = true
		}
	}
	b.WriteString(w.params.Prelude)
	add(w.name)
	t.script = transport.NewScript(b.String())
	assembled.Store(w, t)
	return t
}

func isPart(name string) bool {
	_, err := fs.Stat(texts, "lua/parts/"+name+".lua")
	return err == nil
}

// All returns the scripts by the names of their files; those for permits begin with permit_.
func (s *Set) All() map[string]*transport.Script {
	all := map[string]*transport.Script{
		"renew": s.renew, "beat": s.beat, "peek": s.peek, "tell": s.tell, "downgrade": s.downgrade, "look": s.look, "raise": s.raise,
		"begin": s.begin, "mark": s.mark, "status": s.status, "acquire_all": s.acquireAll, "acquire_batch": s.acquires.Script, "vote_batch": s.votes.Script,
		"queue_batch": s.queues.Script, "release_batch": s.releases.Script,
	}
	for begins, o := range map[string]operations{"": s.locks, "permit_": s.permits} {
		maps.Copy(all, map[string]*transport.Script{
			begins + "acquire": o.acquire, begins + "poll": o.poll, begins + "release": o.release,
			begins + "cancel": o.cancel, begins + "disown": o.disown, begins + "force": o.force,
		})
	}
	return all
}
