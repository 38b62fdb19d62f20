// Package doctor examines the Redis that locks are to be kept in, as a careful engineer does before production: what it is,
// what it forgets, what the user may do there, and how fast it is.
//
//	server.go    what the servers are, and whether they are what they seem to be
//	replicas.go  the replicas of a server outside a Cluster
//	memory.go    what they throw away, and what a crash takes
//	clocks.go    whether their clocks agree
//	client.go    the time-outs of the client
//	rights.go    what the user may do, tried on scratch keys, for locks and for asynq
//	messages.go  whether messages arrive
//	speed.go     how long scripts, a lock and a hand-over take
package doctor

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/transport"
)

// pages is where the documents about operations are.
const pages = "https://github.com/lockmw/go/blob/main/docs/operations.md"

// A Verdict says how a check went.
type Verdict int

// The verdicts, from good to bad.
const (
	OK      Verdict = iota // as it should be
	Advice                 // locks work; something is to be known, or could be better
	Unknown                // it could not be found out
	Warning                // locks work, and will not always
	Failure                // locks do not work here, or do not exclude
)

var verdicts = []string{OK: "ok", Advice: "advice", Unknown: "unknown", Warning: "warning", Failure: "failure"}

func (v Verdict) String() string { return verdicts[v] }

// MarshalText implements encoding.TextMarshaler.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// A Finding is what came of a check. The command and the page print its JSON.
type Finding struct {
	Check   string  `json:"check"` // its name, which stays the same: a word or two
	Verdict Verdict `json:"verdict"`
	Server  string  `json:"server"` // host:port of the servers that it is about; "": all that the check is about
	Saw     string  `json:"saw"`    // what was seen
	Remedy  string  `json:"remedy"` // what to do; "": nothing
}

// Options says what to examine for.
type Options struct {
	Prefix string        // of the locks
	Lease  time.Duration // of the locks that are planned
	// Borrowed says that the client is not that of the program whose locks are planned: its time-outs are not examined.
	Borrowed bool
	// Asynq asks for the rights that asynq needs, as well.
	Asynq bool
	// ReadOnly leaves out what writes to scratch keys: rights, messages and speed.
	ReadOnly bool
}

// ReadOnlyChecks and WritingChecks are the names of all checks, in their order. With Asynq, "asynq" follows "rights".
var (
	ReadOnlyChecks = []string{"connection", "server", "address", "role", "memory", "eviction", "persistence", "replicas", "clocks", "client"}
	WritingChecks  = []string{"rights", "messages", "scripts", "lock", "hand-over"}
)

// Examine yields what it finds, one check after the other. It takes a few seconds. What it writes are keys below the prefix,
// with an end; the counter of fencing tokens is that of all locks, and stays. With ReadOnly it writes nothing. A server that
// does not answer ends it, and so do rights without which there is no lock.
func Examine(ctx context.Context, rdb redis.UniversalClient, o Options) iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		e := &examination{rdb: rdb, options: o, patience: patience}
		defer e.close()
		for _, check := range e.checks() {
			e.findings = nil
			check(ctx)
			for _, f := range e.findings {
				if !yield(f) {
					return
				}
			}
			if e.hasFailed("connection", "role", "rights", "lock") { // nothing that follows can be done
				return
			}
		}
	}
}

// patience is how long a server has for an answer.
const patience = 5 * time.Second

// An examination is under way.
type examination struct {
	rdb       redis.UniversalClient
	options   Options
	patience  time.Duration
	topology  transport.Topology
	servers   []*server
	opened    []*redis.Client // to replicas
	absent    int             // how many replicas are not examined
	unreached []Finding       // why
	findings  []Finding       // of the check that runs
}

func (e *examination) checks() []func(context.Context) {
	checks := []func(context.Context){
		e.connect, e.checkServers, e.checkAddress, e.checkRoles, e.checkMemory, e.checkEviction, e.checkPersistence, e.checkReplicas,
		e.checkClocks, e.checkClient,
	}
	if !e.options.ReadOnly {
		checks = append(checks, e.checkRights, e.checkMessages, e.checkScripts, e.checkLock, e.checkHandOver)
	}
	return checks
}

// hasFailed reports whether the check that has run is one of those, and failed.
func (e *examination) hasFailed(checks ...string) bool {
	return slices.ContainsFunc(e.findings, func(f Finding) bool { return f.Verdict == Failure && slices.Contains(checks, f.Check) })
}

// note adds a finding about all servers.
func (e *examination) note(check string, v Verdict, remedy, format string, args ...any) {
	e.findings = append(e.findings, Finding{Check: check, Verdict: v, Saw: fmt.Sprintf(format, args...), Remedy: remedy})
}

// noteOf adds a finding about one server. If there is one only, it is not named. A replica is no reason for failure before it
// is promoted.
func (e *examination) noteOf(s *server, check string, v Verdict, remedy, format string, args ...any) {
	if s.replica && v == Failure {
		v = Warning
	}
	e.note(check, v, remedy, format, args...)
	if len(e.servers) > 1 {
		e.findings[len(e.findings)-1].Server = s.addr
	}
}

// noteSame makes one finding for servers that have the same verdict and the same words. If it is about all servers that
// were examined, it names none.
func (e *examination) noteSame(examined []*server) {
	var merged []Finding
	for _, f := range e.findings {
		i := slices.IndexFunc(merged, func(m Finding) bool {
			return m.Check == f.Check && m.Verdict == f.Verdict && m.Saw == f.Saw && m.Remedy == f.Remedy
		})
		if i < 0 {
			merged = append(merged, f)
		} else {
			merged[i].Server += " " + f.Server
		}
	}
	for i := range merged {
		if len(strings.Fields(merged[i].Server)) == len(examined) {
			merged[i].Server = ""
		}
	}
	e.findings = merged
}
