// Package script is the Redis side of the locks: the Lua scripts, and how they are sent.
//
// Each operation has a .lua file and, beside it, a Go file of the same name. The Go file has a struct
// that fills the script's KEYS and ARGV, and a method of Reply that reads its answer:
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
// disowned.lua, fence.lua, hold.lua, permits.lua, permits_shown.lua, publish.lua, quarantine.lua, queue.lua, readers.lua, run.lua, settle.lua,
// tick.lua, usual_busy.lua, usual_queued.lua and vote.lua are parts that several scripts share. usual_queue.lua is the part of acquire.lua, and usual_grant.lua that of
// release.lua, that does what is usual for a lock that others wait for, usual_cancel.lua is that of cancel.lua, and usual_vote.lua does
// what is usual for one of several; usual_permit_queue.lua and usual_permit_grant.lua are those for permits. The rest of these scripts can do all of it,
// and what is not usual. The other files:
//
//	script.go   assembles the scripts
//	keys.go     the Redis keys of a lock
//	id.go       ids of requests, tickets and holds
//	call.go     one run of a script
//	sender.go   sends calls: lane.go in the caller's goroutine, pipeline.go many at a time
//	hooks.go    leads the calls of a lane through the hooks of the user's client
//	replicas.go waits until replicas have what a run has written
//	quarantine.go finds out whether a server may have lost locks, by known.lua
//	batch.go    makes one script run of many plain ones
//	reply.go    reads answers
//	message.go  reads what scripts publish
//	server.go   what kind of server there is
//	reload.go   asks which nodes of a Cluster are masters
//	repeat.go   repeats runs of scripts that the server did not know
//	resend.go   sends again what a node has not answered that is no master any more
//	errors.go   what a failed command means
package script

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/internal/core"
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

var (
	//go:embed usual_vote.lua
	usualVoteLua string
	//go:embed usual_queue.lua
	usualQueueLua string
	//go:embed usual_busy.lua
	usualBusyLua string
	//go:embed usual_queued.lua
	usualQueuedLua string
	//go:embed usual_grant.lua
	usualGrantLua string
	//go:embed usual_cancel.lua
	usualCancelLua string
	//go:embed usual_permit_queue.lua
	usualPermitQueueLua string
	//go:embed usual_permit_grant.lua
	usualPermitGrantLua string
	//go:embed publish.lua
	publishLua string
	//go:embed fence.lua
	fenceLua string
	//go:embed run.lua
	runLua string
	//go:embed hold.lua
	holdLua string
	//go:embed readers.lua
	readersLua string
	//go:embed queue.lua
	queueLua string
	//go:embed permits.lua
	permitsLua string
	//go:embed permits_shown.lua
	permitsShownLua string
	//go:embed settle.lua
	settleLua string
	//go:embed tick.lua
	tickLua string
	//go:embed quarantine.lua
	quarantineLua string
	//go:embed vote.lua
	voteLua string
)

// A Script is a Lua script with the shared parts put in.
type Script struct {
	Source string // the text
	SHA    string // by which EVALSHA finds it

	sha    any          // SHA, as an argument of a command
	rested bool         // on what it writes: replicas may have to acknowledge it (rule 21 of docs/protocol.md)
	grants *Quarantine  // in which it grants nothing; nil: there is none, or it never grants
	batch  *batchScript // does plain runs many at a time; nil: there is no such script
	votes  *batchScript // the same for locks that are each one of several
	queues *batchScript // queues many tickets of one lock
}

// quarantinePart stands where quarantine.lua is put in.
const quarantinePart = "--@quarantine\n"

// A Set is all scripts. It is not changed after NewSet.
type Set struct {
	acquire, acquireAll, poll, renew, tell, release, downgrade, cancel, disown, force, look, raise, begin, mark, status *Script

	permit permitScripts
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
	quarantine := "local function may_grant() return true end\n"
	if p.Quarantine != nil {
		quarantine = quarantineLua
	}
	usual := func(part string) string {
		if p.Thorough {
			return ""
		}
		return part
	}
	queueing := strings.NewReplacer("  --@usual_busy\n", usualBusyLua, "  --@usual_queued\n", usualQueuedLua)
	parts := strings.NewReplacer(quarantinePart, quarantine, "--@limits\n", limits, "--@publish\n", publishLua, "--@run\n", runLua,
		"--@usual_vote\n", usual(usualVoteLua), "--@usual_queue\n", usual(queueing.Replace(usualQueueLua)), "--@usual_grant\n", usual(usualGrantLua),
		"--@usual_cancel\n", usual(usualCancelLua),
		"--@usual_permit_queue\n", usual(usualPermitQueueLua), "--@usual_permit_grant\n", usual(usualPermitGrantLua),
		"--@fence\n", fenceLua, "--@hold\n", holdLua, "--@readers\n", readersLua, "--@settle\n", queueLua+settleLua,
		"--@permits\n", queueLua+permitsLua, "--@permits_shown\n", permitsShownLua, "--@disowned\n", disownedLua, "--@tick\n", tickLua, "--@vote\n", voteLua)
	with := assembledWith{params: p, quarantine: p.Quarantine != nil}
	with.params.Quarantine = nil
	assemble := func(source string) *Script {
		with.source = source
		text := with.text(parts)
		s := &Script{Source: text.source, SHA: text.sha, sha: text.sha}
		if strings.Contains(source, quarantinePart) {
			s.grants = p.Quarantine
		}
		return s
	}
	s := &Set{
		acquire: assemble(acquireLua), acquireAll: assemble(acquireAllLua), poll: assemble(pollLua), renew: assemble(renewLua), tell: assemble(tellLua),
		release: assemble(releaseLua), downgrade: assemble(downgradeLua),
		cancel: assemble(cancelLua), disown: assemble(disownLua), force: assemble(forceLua), look: assemble(lookLua), raise: assemble(raiseLua),
		begin: assemble(beginLua), mark: assemble(markLua), status: assemble(statusLua),
	}
	s.permit = newPermitScripts(assemble)
	for _, on := range []*Script{s.acquire, s.acquireAll, s.renew, s.begin, s.mark} {
		on.rested = true
	}
	s.acquire.batch = acquireBatch(assemble(acquireBatchLua))
	s.acquire.votes = voteBatch(assemble(voteBatchLua))
	s.acquire.queues = queueBatch(assemble(queueing.Replace(queueBatchLua)))
	s.release.batch = releaseBatch(assemble(releaseBatchLua))
	return s
}

// assembledWith is what the text of a script depends on.
type assembledWith struct {
	params     Params // but for Quarantine
	quarantine bool
	source     string // before the shared parts are put in
}

// An assembledText is a script's text, and its name for EVALSHA.
type assembledText struct{ source, sha string }

// assembled has all texts by what they depend on: an assembledText by an assembledWith. Clients are made often in tests, and
// share them.
var assembled sync.Map

// text returns the text with the shared parts put in.
func (w assembledWith) text(parts *strings.Replacer) assembledText {
	if known, ok := assembled.Load(w); ok {
		return known.(assembledText)
	}
	t := assembledText{source: w.params.Prelude + parts.Replace(w.source)}
	sum := sha1.Sum([]byte(t.source)) // as Redis names scripts
	t.sha = hex.EncodeToString(sum[:])
	assembled.Store(w, t)
	return t
}

// All returns the scripts by the names of their files.
func (s *Set) All() map[string]*Script {
	all := map[string]*Script{
		"acquire": s.acquire, "poll": s.poll, "renew": s.renew, "tell": s.tell, "release": s.release, "downgrade": s.downgrade,
		"cancel": s.cancel, "disown": s.disown, "force": s.force, "look": s.look, "raise": s.raise, "begin": s.begin, "mark": s.mark, "status": s.status,
		"acquire_all": s.acquireAll, "acquire_batch": s.acquire.batch.script, "vote_batch": s.acquire.votes.script,
		"queue_batch": s.acquire.queues.script, "release_batch": s.release.batch.script,
	}
	maps.Copy(all, s.permit.byName())
	return all
}
