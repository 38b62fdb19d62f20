// Package doctor checks before production whether a Redis is fit for locks: its software, the data that it may lose, the rights of the
// user, and its speed.
//
//	server.go       the servers: software, role, and whether the address leads to one server
//	replicas.go     the replicas of a server, and their state
//	memory.go       memory and eviction
//	persistence.go  what a crash may lose, and whether WithQuarantine can notice it
//	clocks.go       the clocks of the servers
//	client.go       the timeouts of the client
//	layout.go       whether all processes lay out their keys in the same way
//	bridge.go       whether old code takes the keys of bridges
//	rights.go       the rights of the user for locks and asynq, tried on scratch keys
//	scripting.go    what scripts may do, the lifetime of keys, and whether scripts are atomic, tried on scratch keys
//	messages.go     whether messages arrive
//	speed.go        the time of scripts, a lock and a hand-over
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

// pages is the page about operations, to which remedies refer.
const pages = "https://github.com/lockmw/go/blob/main/docs/operations.md"

// A Verdict is the result of a check.
type Verdict int

// The verdicts, from good to bad.
const (
	OK      Verdict = iota // as it should be
	Advice                 // locks work; there is something to know or to improve
	Unknown                // the check could not find out
	Warning                // locks work now, but may fail later
	Failure                // locks do not work here, or do not exclude each other
)

var verdicts = []string{OK: "ok", Advice: "advice", Unknown: "unknown", Warning: "warning", Failure: "failure"}

func (v Verdict) String() string { return verdicts[v] }

// MarshalText implements encoding.TextMarshaler.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// A Finding is one result of a check. The command and the inspector print it as JSON.
type Finding struct {
	Check   string  `json:"check"` // the name of the check; names are stable
	Verdict Verdict `json:"verdict"`
	Server  string  `json:"server"` // host:port of each server concerned, separated by spaces; "" for all servers that were checked
	Saw     string  `json:"saw"`    // the observation
	Remedy  string  `json:"remedy"` // "" if there is nothing to do
}

// Options configures Examine.
type Options struct {
	Prefix      string        // key prefix of the planned locks
	SlottedKeys bool          // WithSlottedKeys of the planned locks
	Lease       time.Duration // lease of the planned locks
	// Borrowed says that the client belongs to another program than the one that will lock, so its timeouts are not checked.
	Borrowed bool
	// Asynq adds a check of the rights that asynq needs.
	Asynq bool
	// ReadOnly omits the checks that write scratch keys: rights, scripts, messages and speed.
	ReadOnly bool
	// Bridge adds a check that watches old keys of another lock library for some seconds. It only reads.
	Bridge []OldKey
}

// A check is one step of an examination.
type check struct {
	name  string
	vital bool // after a failure the remaining checks cannot work
	run   func(*examination, context.Context)
}

// The checks, in the order in which they run.
var (
	readOnly = []check{
		{"connection", true, (*examination).connect}, {"server", false, (*examination).checkServers},
		{"address", false, (*examination).checkAddress}, {"role", true, (*examination).checkRoles},
		{"memory", false, (*examination).checkMemory}, {"eviction", false, (*examination).checkEviction},
		{"persistence", false, (*examination).checkPersistence}, {"quarantine", false, (*examination).checkQuarantine},
		{"replicas", false, (*examination).checkReplicas}, {"clocks", false, (*examination).checkClocks},
		{"client", false, (*examination).checkClient}, {"layout", true, (*examination).checkLayout},
	}
	writing = []check{
		{"rights", true, (*examination).checkRights}, {"scripting", true, (*examination).checkScripting},
		{"expiry", false, (*examination).checkExpiry}, {"atomicity", false, (*examination).checkAtomicity},
		{"messages", false, (*examination).checkMessages}, {"scripts", false, (*examination).checkScripts},
		{"lock", true, (*examination).checkLock}, {"hand-over", false, (*examination).checkHandOver},
	}
)

// ReadOnlyChecks and WritingChecks are the names of all checks, in the order in which they run. With Asynq, "asynq" follows "rights";
// with Bridge, "bridge" follows "layout".
var (
	ReadOnlyChecks = namesOf(readOnly)
	WritingChecks  = namesOf(writing)
)

func namesOf(checks []check) (names []string) {
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// Examine runs the checks in order and yields their findings. It takes a few seconds. It writes keys below the prefix, which expire, and
// raises the prefix's counter of fencing tokens, which stays. With ReadOnly it writes nothing. It ends early if a server does not answer
// or if the user lacks a right that every lock needs, and before it would write in a second layout.
func Examine(ctx context.Context, rdb redis.UniversalClient, o Options) iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		e := &examination{rdb: rdb, options: o, patience: patience}
		defer e.close()
		for _, c := range e.checks() {
			e.check, e.findings = c.name, nil
			c.run(e, ctx)
			for _, f := range e.findings {
				if !yield(f) {
					return
				}
			}
			if c.vital && slices.ContainsFunc(e.findings, func(f Finding) bool { return f.Check == c.name && f.Verdict == Failure }) {
				return
			}
		}
	}
}

// patience is the time in which a server must answer.
const patience = 5 * time.Second

// An examination is one run of Examine.
type examination struct {
	rdb       redis.UniversalClient
	options   Options
	patience  time.Duration
	topology  transport.Topology
	servers   []*server
	opened    []*redis.Client // to replicas
	absent    int             // number of replicas that could not be checked
	unreached []Finding       // the reasons for them
	check     string          // the name of the current check
	findings  []Finding       // of the current check

	mute *transport.Shortcoming // scripts may not publish; nil: they may
}

func (e *examination) checks() []check {
	all := slices.Clone(readOnly)
	for _, k := range e.options.Bridge {
		all = append(all, check{name: "bridge", run: func(e *examination, ctx context.Context) { e.watchOldKey(ctx, k) }})
	}
	if !e.options.ReadOnly {
		all = append(all, writing...)
	}
	return all
}

// note adds a finding about all servers.
func (e *examination) note(v Verdict, remedy, format string, args ...any) {
	e.findings = append(e.findings, Finding{Check: e.check, Verdict: v, Saw: fmt.Sprintf(format, args...), Remedy: remedy})
}

// noteOf adds a finding about one server, which it names only if there are several. A failure of a replica becomes a warning, because it
// matters only after a fail-over.
func (e *examination) noteOf(s *server, v Verdict, remedy, format string, args ...any) {
	if s.replica && v == Failure {
		v = Warning
	}
	e.note(v, remedy, format, args...)
	if len(e.servers) > 1 {
		e.findings[len(e.findings)-1].Server = s.addr
	}
}

// each calls note with each of the servers whose INFO is known, and merges equal findings about servers.
func (e *examination) each(servers []*server, note func(s *server)) {
	for _, s := range servers {
		if s.info != nil {
			note(s)
		}
	}
	e.noteSame(servers)
}

// noteSame merges equal findings about several servers. A finding about all servers that were examined names none.
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
