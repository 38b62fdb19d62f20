// Package script is the Redis side of the locks: the Lua scripts, their arguments and their answers. Package transport sends them.
//
// Each operation has a file lua/<operation>.lua and a Go file of the same name. The Go file has a struct
// that fills the script's KEYS and ARGV, and a function that reads its answer:
//
//	acquire    takes a lock, or queues a ticket for it
//	acquireall takes several free locks, or none, by acquire_all.lua
//	poll       keeps tickets alive and asks for their grants
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
// Those whose names begin with permit_ do the same for the permits of semaphores; permit.go and the files of the operations fill
// their KEYS and ARGV.
//
// What several scripts share is in lua/parts. A part whose name begins with fast_ does what is usual in less time; the rest of
// the script can do all of it, and what is not usual. The other files:
//
//	script.go     assembles the scripts
//	keys.go       the Redis keys of a lock; slot.go finds their slot in a Cluster
//	id.go         ids of requests, tickets and holds
//	about.go      what a hold says of its caller
//	answer.go     what several answers have in common
//	message.go    reads what scripts publish; secret.go proves who has published it
//	quarantine.go finds out whether a server may have lost locks, by known.lua
package script

import (
	"embed"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// The protocol's times and limits, as the scripts know them.
const (
	PollInterval = 750 * time.Millisecond // a ticket unseen for three of these is dead
	AcceptWindow = 3 * time.Second        // how long a grant waits for its process
	DoneTTL      = time.Minute            // how long the mark of an id that is over is kept

	queueTTL   = time.Minute // how long a queue outlives the last sign of life
	maxReaped  = 32          // dead tickets that one run removes
	maxShown   = 8           // holders that a caller is told of
	doneMillis = int64(DoneTTL / time.Millisecond)

	maxTokenAhead = time.Second      // how far a vote may have the counter ahead of the clock
	maxSinceAhead = time.Millisecond // a token up to that far ahead of the clock also says since when the lock is held

	// MaxAdmitted is how many readers one run admits.
	MaxAdmitted = 128
	// MaxRun is how many tickets one grant is for at most, the first one and its run.
	MaxRun = 32
	// MaxPolled is how many tickets of a key one run of poll.lua asks for.
	MaxPolled = 128
)

// The scripts, and in lua/parts what several of them share: the line "--@fence" stands for parts/fence.lua.
//
//go:embed lua
var texts embed.FS

// A Set is all scripts. It is not changed after NewSet.
type Set struct {
	acquire, acquireAll, poll, renew, tell, release, downgrade, cancel, disown, force, look, raise, begin, mark, status *transport.Script

	permit permitScripts

	acquires, votes, queues, releases *transport.Batch // acquires is for locks that are no votes and in no order
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
	return Params{Single: single, AcceptWindow: AcceptWindow, QueueTTL: queueTTL, MaxAdmitted: MaxAdmitted}
}

// NewSet assembles the scripts. Limits that commands are given are strings: Redis 7.0 takes as long to format a number as to
// run a cheap command.
func NewSet(p Params) *Set {
	limits := fmt.Sprintf("local POLL, ACCEPT, QUEUE_TTL, AHEAD, SINCE = %d, '%d', '%d', %d, %d\n"+
		"local MAX_REAPED, MAX_ADMITTED, MAX_SHOWN, LAST_OF_RUN, SINGLE = %d, %d, %d, '%d', %t\n"+
		"local MAX_PERMITS, MAX_SLOTS_TOLD = %d, 200\n", // bytes
		PollInterval.Milliseconds(), p.AcceptWindow.Milliseconds(), p.QueueTTL.Milliseconds(), maxTokenAhead.Microseconds(),
		maxSinceAhead.Microseconds(), maxReaped, p.MaxAdmitted, maxShown, MaxRun-1, p.Single, core.MaxPermits)
	with := assembledWith{params: p, quarantine: p.Quarantine != nil}
	with.params.Quarantine = nil
	assemble := func(name string) *transport.Script {
		with.name = name
		text := with.text(limits)
		s := *text.script
		if text.grants && p.Quarantine != nil {
			s.Guard = p.Quarantine
		}
		return &s
	}
	s := &Set{
		acquire: assemble("acquire"), acquireAll: assemble("acquire_all"), poll: assemble("poll"), renew: assemble("renew"), tell: assemble("tell"),
		release: assemble("release"), downgrade: assemble("downgrade"),
		cancel: assemble("cancel"), disown: assemble("disown"), force: assemble("force"), look: assemble("look"), raise: assemble("raise"),
		begin: assemble("begin"), mark: assemble("mark"), status: assemble("status"),
	}
	s.permit = newPermitScripts(assemble)
	for _, on := range []*transport.Script{s.acquire, s.acquireAll, s.renew, s.begin, s.mark} {
		on.NeedsReplicas = true
	}
	s.acquires = acquireBatch(assemble("acquire_batch"))
	s.votes = voteBatch(assemble("vote_batch"))
	s.queues = queueBatch(assemble("queue_batch"))
	s.releases = releaseBatch(assemble("release_batch"))
	return s
}

// assembledWith is what the text of a script depends on.
type assembledWith struct {
	params     Params // but for Quarantine
	quarantine bool
	name       string // of the file
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
	var add func(file string)
	add = func(file string) {
		text, err := texts.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic(err) // a script names a part that does not exist
		}
		for line := range strings.Lines(string(text)) {
			part, ok := strings.CutPrefix(strings.TrimSpace(line), "--@")
			t.grants = t.grants || part == "quarantine"
			switch {
			case !ok:
				b.WriteString(line)
			case part == "limits":
				b.WriteString(limits)
			case part == "quarantine" && !w.quarantine:
				b.WriteString("local function may_grant() return true end\n")
			case strings.HasPrefix(part, "fast_") && w.params.Thorough:
			default:
				add("parts/" + part)
			}
		}
	}
	b.WriteString(w.params.Prelude)
	add(w.name)
	t.script = transport.NewScript(b.String())
	assembled.Store(w, t)
	return t
}

// All returns the scripts by the names of their files.
func (s *Set) All() map[string]*transport.Script {
	all := map[string]*transport.Script{
		"acquire": s.acquire, "poll": s.poll, "renew": s.renew, "tell": s.tell, "release": s.release, "downgrade": s.downgrade,
		"cancel": s.cancel, "disown": s.disown, "force": s.force, "look": s.look, "raise": s.raise, "begin": s.begin, "mark": s.mark, "status": s.status,
		"acquire_all": s.acquireAll, "acquire_batch": s.acquires.Script, "vote_batch": s.votes.Script,
		"queue_batch": s.queues.Script, "release_batch": s.releases.Script,
	}
	maps.Copy(all, s.permit.byName())
	return all
}
