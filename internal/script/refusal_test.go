package script_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/test/suite"
)

// The errors of servers that refuse all writes.
var refusals = []string{
	"READONLY You can not write against a read only replica.",
	"NOREPLICAS Not enough good replicas to write.",
	"MISCONF Redis is configured to save RDB snapshots.",
}

// Commands by which scripts write, and by which they read.
var (
	writes = []string{"SET", "DEL", "HSET", "HDEL", "ZADD", "ZREM", "PEXPIRE"}
	reads  = []string{"GET", "EXISTS", "HGET", "HMGET", "HGETALL", "HLEN", "ZCARD", "ZSCORE", "ZRANGE", "ZRANK", "PTTL", "PUBLISH"}
)

// A refusable is an operation in a scene that a server may refuse.
type refusable struct {
	name string
	set  func(d *scripttest.Driver)
	op   func(d *scripttest.Driver) scripttest.Operation
}

// refusables lists the operations on locks and on permits.
func refusables() (all []refusable) {
	for i := range scenes {
		sc := &scenes[i]
		for _, t := range turnsOf(sc) {
			all = append(all, refusable{sc.name + ", " + t.name, sc.set, t.run})
		}
	}
	held := func(d *scripttest.Driver) { d.Acquire(scripttest.Acquire{ID: "w1", Tokens: 3}) }
	for name, op := range map[string]func(d *scripttest.Driver) scripttest.Operation{
		"begin of a tick": func(d *scripttest.Driver) scripttest.Operation {
			return &script.Begin{Keys: d.Keys, ID: scripttest.ID("w1"), Token: d.Token(), Tick: core.Tick{At: time.Now(), Within: time.Minute, Keep: time.Minute}}
		},
		"mark of a tick": func(d *scripttest.Driver) scripttest.Operation {
			return &script.Mark{Keys: d.Keys, Token: d.Token(), Tick: core.Tick{At: time.Now(), Within: time.Minute, Keep: time.Minute}}
		},
		"report_waiters": func(d *scripttest.Driver) scripttest.Operation {
			return &script.ReportWaiters{Keys: d.Keys, ID: scripttest.ID("w1"), Calls: 3, Number: 1}
		},
		"raise": func(d *scripttest.Driver) scripttest.Operation {
			return &script.Raise{Keys: d.Keys, Token: d.Token() + 5}
		},
		"acquire of several": func(d *scripttest.Driver) scripttest.Operation {
			keys := d.Sibling(d.Key + ":2")
			return &script.AcquireAll{Locks: []script.LockID{{Keys: &keys, ID: scripttest.ID("w2")}}, Lease: time.Minute, Mode: core.Exclusive, Inbox: "i"}
		},
		"release of several": func(d *scripttest.Driver) scripttest.Operation {
			return &script.ReleaseAll{Locks: []script.LockID{{Keys: d.Keys, ID: scripttest.ID("w1")}}}
		},
		"vote": func(d *scripttest.Driver) scripttest.Operation {
			return scripttest.Acquire{ID: "w2", Vote: &core.Vote{}}.Operation(d)
		},
	} {
		all = append(all, refusable{name, held, op})
	}
	permits := func(d *scripttest.Driver) {
		d.AcquirePermit(scripttest.Permit{ID: "h1", N: 3, Lease: time.Minute})
		d.AcquirePermit(scripttest.Permit{ID: "h2", N: 3, Weight: 2})
		d.AcquirePermit(scripttest.Permit{ID: "w1", N: 3})
		d.AcquirePermit(scripttest.Permit{ID: "w2", N: 3})
	}
	for name, op := range permitTurns {
		all = append(all, refusable{"permits, " + name, permits, op})
	}
	slices.SortFunc(all, func(a, b refusable) int { return strings.Compare(a.name, b.name) })
	return all
}

// A replica, and a master without enough replicas, refuse writes. A script that writes by pcall must not use the refusal as if
// it were the answer, nor answer as if it had written.
func TestAScriptWhoseWritesAreRefusedSaysSo(t *testing.T) {
	race.FindsNothing(t)
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		rdb := s.NewClient(t)
		for i, r := range refusables() {
			if !suite.Full() && !isSampled(s, i, 2) {
				continue
			}
			refusal := refusals[i%len(refusals)]
			d := scripttest.New(t, rdb, fmt.Sprint(t.Name(), i))
			r.set(d)
			op, before := r.op(d), contentOf(d)
			d.Refuse(refusal, writes...)
			err := d.Send(op).Err
			d.EndAtTheEnd()
			word, _, _ := strings.Cut(refusal, " ")
			if after := contentOf(d); after != before {
				t.Errorf("%s: it was refused, and changed something\nfrom %s\nto   %s", r.name, before, after)
			}
			switch {
			case err != nil && !strings.Contains(err.Error(), word):
				t.Errorf("%s: %v, want %s", r.name, err, word)
			case err == nil:
				again := d.Send(op)
				if after := contentOf(d); after != before {
					t.Errorf("%s: it answered as if it had been done (%+v)\nfrom %s\nto   %s", r.name, again, before, after)
				}
			}
		}
	})
}

// A user may lack the right to a command. A script that runs a command by pcall does not use the error as if it were the
// answer.
func TestNoScriptTakesAnErrorForAnAnswer(t *testing.T) {
	race.FindsNothing(t)
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		rdb := s.NewClient(t)
		for i, r := range refusables() {
			for j, command := range slices.Concat(writes, reads) {
				if !isSampled(s, i+j, 16) {
					continue
				}
				d := scripttest.New(t, rdb, fmt.Sprint(t.Name(), i, command))
				r.set(d)
				op := r.op(d)
				d.Refuse("NOPERM this is refused", command)
				err := d.Send(op).Err
				d.EndAtTheEnd()
				if err != nil && !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "WRONGTYPE") {
					t.Errorf("%s, without %s: %v", r.name, command, err)
				}
			}
		}
	})
}
