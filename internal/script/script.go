// Package script is the Redis side of the locks: the Lua scripts, their arguments and their answers. Package transport sends them.
//
// Each operation has a file lua/<operation>.lua and a Go file of the same name. The Go file has a struct that fills the
// script's KEYS and ARGV, and a function that reads its answer, unless that is EndedAnswer:
//
//	acquire       takes a lock, or queues a ticket for it
//	acquireall    takes several free locks, or none, by acquire_all.lua
//	poll          keeps a queue alive and reports the state of its tickets
//	peek          reads whether anything has changed for tickets
//	beat          shows that a waiting process is alive
//	renew         renews the lease of one hold
//	reportwaiters notes how many calls of its process wait behind a hold
//	release       ends a hold and grants the lock to the next ticket
//	releaseall    ends several holds, by release_batch.lua
//	downgrade     turns a write hold into a read hold
//	cancel        ends an id, whatever its state
//	disown        ends all ids of a process at a key that it no longer uses
//	force         takes a lock away from its holder
//	look          reads holders and tickets, to find deadlocks
//	status        reads everything that is stored for a lock, for people who inspect it
//	raise         makes tokens greater than a given one
//	begin         begins a tick of a job
//	mark          notes that a tick of a job was run
//	record        opens and ends the record of a key's work, alone or together with an acquire, a release or a cancel
//
// Parts that several scripts share are in lua/parts. An operation for both locks and permits of semaphores is one script. It
// includes parts whose names contain "{kind}", which stands for locks or permits. A part whose name begins with fast_ is a
// faster path for usual cases; the rest of the script handles all cases. The other files:
//
//	script.go     assembles the scripts
//	permit.go     the keys of a semaphore, and its permits in answers
//	keys.go       the Redis keys of a lock; slot.go finds their slot in a Cluster
//	id.go         ids of requests, tickets and holds
//	holderinfo.go the information about a hold in its owner field
//	answer.go     code that several answers share
//	message.go    reads the messages of scripts; secret.go checks their proofs
//	quarantine.go decides whether a server may have lost locks, by known.lua
package script

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// Times and limits of the protocol.
const (
	PollInterval = 750 * time.Millisecond // between two peeks, or polls, for a ticket
	KeepInterval = 40 * time.Second       // between two polls that keep a queue alive in which nothing changes
	BeatInterval = time.Second            // between two signs of life of a waiting process
	AcceptWindow = 3 * time.Second        // expiry of a grant until its process renews it
	DoneTTL      = time.Minute            // TTL of the done mark of an id

	QueueTTL = 2 * time.Minute // how long a queue outlives the last poll
	// A ticket is dead if its process has not been seen for DeadAfter, and some process has beaten throughout that time, with gaps
	// below beatGap. DeadAfter must exceed the sum of beatGap, BeatInterval and the longest pause before a connection is retried,
	// 1 s.
	DeadAfter = 4 * time.Second
	beatGap   = 1500 * time.Millisecond
	seenNow   = 1250 * time.Millisecond // a live process was seen within that time
	forgotten = time.Minute             // after that, the entry of a process that was not seen is deleted

	maxReaped  = 32 // dead tickets that one execution removes
	maxShown   = 8  // holders in an answer
	doneMillis = int64(DoneTTL / time.Millisecond)

	maxTokenAhead = time.Second      // how far a vote may move the counter ahead of the clock
	maxSinceAhead = time.Millisecond // a token up to that far ahead of the clock also shows since when the lock is held

	// MaxAdmitted is the greatest number of readers that one execution admits.
	MaxAdmitted = 128
	// MaxGrantBatch is the greatest number of tickets in one grant: the granted ticket and its grant batch.
	MaxGrantBatch = 32
	// MaxPolled is the greatest number of tickets of a key in one execution of poll.lua.
	MaxPolled = 128
	// MaxPeeked is the greatest number of tickets in one execution of peek.lua. Redis reads up to 16 KiB of arguments in one
	// piece.
	MaxPeeked = 128
)

// The scripts and, in lua/parts, their shared parts. The line "--@fence" includes parts/fence.lua, once in a script. The line
// "--+holder" includes parts/holder.lua wherever it occurs: such a part works on the locals around it and defines no function.
//
//go:embed lua
var texts embed.FS

// A Set contains all scripts. It does not change after NewSet.
type Set struct {
	locks, permits                                                                            operations
	acquireAll, renew, beat, peek, reportWaiters, downgrade, look, raise, begin, mark, status *transport.Script
	recordAcquire, recordBegin, recordEnd, recordRelease, recordCancel                        *transport.Script

	acquires, votes, queues, releases *transport.Batch // acquires is for plain locks on one server

	all map[string]*transport.Script
}

// operations are the scripts that exist for both locks and permits.
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

// callOf prepares one execution of a script for a lock or a permit, with the six keys that most scripts need.
func callOf(
	ctx context.Context, run *transport.Script, keys *KeySet, permit bool, size int, done func(*transport.Reply),
) *transport.Call {
	k, all := transport.NewCall(ctx, run, len(keys.six)+size, done), keys.keysFor(permit)
	k.AddKeys(all[:]...)
	return k
}

// Params determine the texts of the scripts.
type Params struct {
	// Single says that the server is a plain one: if no subscriber receives a PUBLISH there, no process listens.
	Single bool
	// Tests change these three.
	AcceptWindow, QueueTTL, MaxTokenAhead time.Duration
	// MaxAdmitted is the greatest number of readers that one execution admits.
	MaxAdmitted int
	Quarantine  *Quarantine // nil: none
	// NoFastPaths leaves out the fast paths. Tests compare the effects with and without them.
	NoFastPaths bool
	// Prelude is Lua code in front of each script. Tests use it to make scripts fail.
	Prelude string
}

// DefaultParams returns the times and limits of the protocol.
func DefaultParams(single bool) Params {
	return Params{Single: single, AcceptWindow: AcceptWindow, QueueTTL: QueueTTL, MaxTokenAhead: maxTokenAhead, MaxAdmitted: MaxAdmitted}
}

// NewSet assembles the scripts. Limits that are arguments of commands are strings: Redis 7.0 takes as long to format a number
// as to execute a cheap command.
func NewSet(p Params) *Set {
	limits := fmt.Sprintf("local ACCEPT, QUEUE_TTL, AHEAD, SINCE = '%d', '%d', %d, %d\n"+
		"local BEAT_GAP, RECENT, DEAD, FORGOTTEN, ALIVE_TTL = %d, %d, %d, '%d', '%d'\n"+
		"local MAX_REAPED, MAX_ADMITTED, MAX_SHOWN, LAST_OF_BATCH, SINGLE = %d, %d, %d, '%d', %t\n"+
		"local MAX_PERMITS, MAX_SLOTS_SHOWN = %d, 200\n", // bytes
		p.AcceptWindow.Milliseconds(), p.QueueTTL.Milliseconds(), p.MaxTokenAhead.Microseconds(), maxSinceAhead.Microseconds(),
		beatGap.Milliseconds(), seenNow.Milliseconds(), DeadAfter.Milliseconds(), forgotten.Milliseconds(), p.QueueTTL.Milliseconds(),
		maxReaped, p.MaxAdmitted, maxShown, MaxGrantBatch-1, p.Single, core.MaxPermits)
	with := assembledWith{params: p, quarantine: p.Quarantine != nil}
	with.params.Quarantine = nil
	all := make(map[string]*transport.Script)
	assemble := func(kind, name string) *transport.Script {
		with.kind, with.name = kind, name
		text := with.text(limits)
		s := *text.script
		if text.grants && p.Quarantine != nil {
			s.Guard = p.Quarantine
		}
		if kind == "permits" {
			name = "permit_" + name
		}
		all[name] = &s
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
		all:   all,
		locks: operationsOf("locks"), permits: operationsOf("permits"),
		acquireAll: lock("acquire_all"), renew: lock("renew"), beat: lock("beat"), peek: lock("peek"), reportWaiters: lock("report_waiters"), downgrade: lock("downgrade"),
		look: lock("look"), raise: lock("raise"), begin: lock("begin"), mark: lock("mark"), status: lock("status"),
		recordAcquire: lock("record_acquire"), recordBegin: lock("record_begin"), recordEnd: lock("record_end"),
		recordRelease: lock("record_release"), recordCancel: lock("record_cancel"),
	}
	for _, on := range []*transport.Script{s.acquireAll, s.renew, s.begin, s.mark, s.recordAcquire, s.recordBegin, s.recordEnd, s.recordRelease} {
		on.NeedsReplicas = true
	}
	s.acquires = acquireBatch(lock("acquire_batch"))
	s.votes = voteBatch(lock("vote_batch"))
	s.queues = queueBatch(lock("queue_batch"))
	s.releases = releaseBatch(lock("release_batch"))
	return s
}

// assembledWith determines the text of a script.
type assembledWith struct {
	params     Params // without Quarantine
	quarantine bool
	kind, name string // kind replaces {kind}; name is the name of the file
}

// An assembledText is a script with its text.
type assembledText struct {
	script *transport.Script
	grants bool // it includes the part "quarantine"
}

// assembled caches all texts: it maps an assembledWith to its assembledText. Tests make many Clients, which share the texts.
var assembled sync.Map

// text returns the script with its parts included.
func (w assembledWith) text(limits string) assembledText {
	if known, ok := assembled.Load(w); ok {
		return known.(assembledText)
	}
	var t assembledText
	var b strings.Builder
	in := make(map[string]bool) // parts that are included already
	var add func(file string)
	add = func(file string) {
		text, err := texts.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic(err) // a script names a part that does not exist
		}
		for line := range strings.Lines(string(text)) {
			if part, ok := strings.CutPrefix(strings.TrimSpace(line), "--+"); ok {
				if whole, ok := strings.CutPrefix(part, "/"); ok {
					add(whole)
				} else {
					add("parts/" + part)
				}
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
			case fast && (w.params.NoFastPaths || !isPart(part)):
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

// All returns the scripts by the names of their files. The map must not be changed. The names of scripts for permits begin with permit_.
func (s *Set) All() map[string]*transport.Script { return s.all }
