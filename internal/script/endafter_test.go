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

// A scene is a lock with its holders and tickets.
type scene struct {
	name         string
	holds, waits []string
	set          func(d *scripttest.Driver)
	served       []string // tickets to whose calls the hold was passed
}

var scenes = []scene{
	{"a writer before others", []string{"w1"}, []string{"w2", "r1", "w3", "r2"}, func(d *scripttest.Driver) {
		d.Write("w1")
		d.Write("w2")
		d.Read("r1")
		d.Write("w3")
		d.Read("r2")
	}, nil},
	{"readers before others", []string{"r1", "r2"}, []string{"w1", "r3", "w2"}, func(d *scripttest.Driver) {
		d.Read("r1")
		d.Read("r2")
		d.Write("w1")
		d.Read("r3")
		d.Write("w2")
	}, nil},
	{"a reader before readers and a writer", []string{"r1"}, []string{"w1", "r3", "r4"}, func(d *scripttest.Driver) {
		d.Read("r1")
		d.Write("w1")
		d.Read("r3")
		d.Read("r4")
	}, nil},
	{"fair calls", []string{"f1"}, []string{"f2", "f3"}, func(d *scripttest.Driver) {
		d.Keep("f1", "t", time.Minute)
		d.Fair("f2")
		d.Fair("f3")
	}, nil},
	{"a run", []string{"f1"}, []string{"f2", "f3", "f4"}, func(d *scripttest.Driver) {
		d.FairOf("p", "f0")
		for _, id := range []string{"f1", "f2", "f3", "f4"} {
			d.FairOf("p", id)
		}
		d.Release("f0")
	}, []string{"f2", "f3"}},
	{"a hold that is over before others", nil, []string{"w2", "r1"}, func(d *scripttest.Driver) {
		d.Write("w1")
		d.Write("w2")
		d.Read("r1")
		d.Redis.Del(d.Context(), d.Keys.Holder())
	}, nil},
	{"readers that are over before others", nil, []string{"w1", "r3"}, func(d *scripttest.Driver) {
		d.Read("r1")
		d.Write("w1")
		d.Read("r3")
		d.Expire("r1")
	}, nil},
	{"nobody", nil, nil, func(*scripttest.Driver) {}, nil},
}

// A turn is one execution of a script. It ends the holds and tickets of some ids, and may begin one.
type turn struct {
	name   string
	ends   []string
	begins string
	tries  bool // it may not begin it
	run    func(d *scripttest.Driver) scripttest.Operation
}

func acquires(a scripttest.Acquire) turn {
	t := turn{name: fmt.Sprintf("acquire by %v", a.Mode), begins: a.ID, tries: a.Try}
	if a.Try {
		t.name += ", without waiting"
	}
	if a.Predecessor != "" {
		t.name += ", to take over from " + a.Predecessor
		t.ends = []string{a.Predecessor}
	}
	t.run = func(d *scripttest.Driver) scripttest.Operation { return a.Operation(d) }
	return t
}

// turnsOf lists the executions that are possible in a scene.
func turnsOf(s *scene) []turn {
	all := slices.Concat(s.holds, s.waits)
	turns := []turn{
		acquires(scripttest.Acquire{ID: "n1", Mode: core.Write}),
		acquires(scripttest.Acquire{ID: "n1", Mode: core.Read}),
		acquires(scripttest.Acquire{ID: "n1"}),
		acquires(scripttest.Acquire{ID: "n1", Mode: core.Fair, Place: "u", KeepPlace: time.Minute}),
		acquires(scripttest.Acquire{ID: "n1", Mode: core.Read, Try: true}),
		{name: "poll", run: func(d *scripttest.Driver) scripttest.Operation { return d.Polls(scripttest.Lease, all...) }},
	}
	for _, id := range all {
		turns = append(turns, turn{name: "cancel " + id, ends: []string{id}, run: func(d *scripttest.Driver) scripttest.Operation {
			return &script.Cancel{Keys: d.Keys, ID: id, Mark: true}
		}})
	}
	for _, stem := range []string{"w", "r", "f"} {
		t := turn{name: "disown " + stem + "1, but not " + stem + "2", run: func(d *scripttest.Driver) scripttest.Operation {
			return &script.Disown{Keys: d.Keys, Stem: script.IDStem(stem), UpTo: 3, InUse: []uint64{2}}
		}}
		for _, id := range all {
			if strings.HasPrefix(id, stem) && id[1:] != "2" && id[1:] <= "3" {
				t.ends = append(t.ends, id)
			}
		}
		turns = append(turns, t)
	}
	for _, id := range s.holds {
		turns = append(turns,
			turn{name: "release " + id, ends: []string{id}, run: func(d *scripttest.Driver) scripttest.Operation {
				return &script.Release{Keys: d.Keys, ID: scripttest.ID(id)}
			}},
			turn{name: "marked release " + id, ends: []string{id}, run: func(d *scripttest.Driver) scripttest.Operation {
				return &script.Release{Keys: d.Keys, ID: scripttest.ID(id), Mark: true, Place: "t"}
			}},
			turn{name: "release after which the key stays taken " + id, ends: []string{id}, run: func(d *scripttest.Driver) scripttest.Operation {
				return &script.Release{Keys: d.Keys, ID: scripttest.ID(id), Linger: 30 * time.Millisecond}
			}},
			turn{name: "force " + id, ends: []string{id}, run: func(d *scripttest.Driver) scripttest.Operation {
				return &script.Force{Keys: d.Keys, Token: d.Token(), Owner: "owner-" + id}
			}},
			turn{name: "renewal " + id, run: func(d *scripttest.Driver) scripttest.Operation {
				return &script.Renew{Keys: d.Keys, ID: scripttest.ID(id), Lease: 2 * scripttest.Lease}
			}},
			acquires(scripttest.Acquire{ID: "n1", Predecessor: id}),
		)
		if s.served != nil {
			ends := append([]string{id}, s.served...)
			turns = append(turns,
				turn{name: "release of a run", ends: ends, run: func(d *scripttest.Driver) scripttest.Operation {
					return &script.Release{Keys: d.Keys, ID: scripttest.ID(id), Served: s.served}
				}},
				turn{name: "cancel of a run", ends: ends, run: func(d *scripttest.Driver) scripttest.Operation {
					return &script.Cancel{Keys: d.Keys, ID: id, Served: s.served}
				}},
				turn{name: "cancel of those who were served", ends: s.served, run: func(d *scripttest.Driver) scripttest.Operation {
					return &script.Cancel{Keys: d.Keys, ID: s.served[0], Served: s.served[1:]}
				}})
		}
		if id[0] == 'w' {
			turns = append(turns, turn{name: "downgrade " + id, run: func(d *scripttest.Driver) scripttest.Operation {
				return &script.Downgrade{Keys: d.Keys, ID: scripttest.ID(id)}
			}})
		}
	}
	return turns
}

// Rule 19: wherever a script is cut off, no id holds the lock that must not, no process believes so, and no ticket waits
// forever.
func TestAScriptMayEndAfterAnyOfItsWrites(t *testing.T) {
	race.FindsNothing(t)
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		rdb := s.NewClient(t)
		for i := range scenes {
			sc := &scenes[i]
			for k, turn := range turnsOf(sc) {
				if !isSampled(s, i+k, 4) {
					continue
				}
				t.Run(sc.name+", "+turn.name, func(t *testing.T) {
					for writes, ended := 0, true; ended; writes++ {
						d := scripttest.New(t, rdb, fmt.Sprintf("%s%d", t.Name(), writes))
						ended = endsAfter(d, sc, &turnsOf(sc)[k], writes)
					}
				})
			}
		}
	})
}

// isSampled reports whether the case n runs on s: in the quick suite, one of every so many on a real server. An embedded one runs
// an eighth of them, because its scripts take long.
func isSampled(s *redistest.Server, n, every int) bool {
	if suite.Full() {
		every = 1
	}
	if s.Mini != nil {
		every *= 8
	}
	return n%every == 0
}

// endsAfter cuts a script off after n writes, and reports whether it has that many.
func endsAfter(d *scripttest.Driver, sc *scene, t *turn, writes int) bool {
	d.Helper()
	sc.set(d)
	op := t.run(d)
	var err error
	harmless(d, sc, t, func() {
		d.EndAfter(writes)
		defer d.EndAtTheEnd()
		if err = d.Send(op).Err; err != nil && !strings.Contains(err.Error(), "ended after") {
			d.Fatal(err)
		}
	})
	if d.Failed() {
		d.Fatalf("when it ended after %d writes", writes)
	}
	if err := d.Send(op).Err; err != nil {
		d.Error("again:", err)
	}
	goesOn(d, sc, t)
	return err != nil
}

// harmless checks that the script takes the lock from no other id, and announces no hold that does not exist.
func harmless(d *scripttest.Driver, sc *scene, t *turn, do func()) {
	d.Helper()
	heard, before := d.HearWhole(), d.Look()
	do()
	after := d.Look()
	for _, id := range sc.holds {
		if !slices.Contains(t.ends, id) && !after.Has(id) {
			d.Errorf("the hold of %s is gone\nfrom %v\nto   %v", id, before, after)
		}
	}
	if after.Holder.NeverExpires() {
		d.Errorf("the holder never expires: %v", after)
	}
	for _, text := range heard() {
		_, payload, _ := strings.Cut(text, ": ")
		m, ok := script.ParseMessage(payload)
		if !ok {
			d.Errorf("published: %q", text)
		}
		if m.Holder != d.Keys.Holder() {
			continue // on a node of a Cluster, messages published on another node, for another lock, arrive late
		}
		if m.Kind == script.Granted && !after.Has(m.ID) {
			d.Errorf("%s was told that it has the lock\nfrom %v\nto   %v", m.ID, before, after)
		}
	}
}

// goesOn lets all ids hold the lock in turn, and checks that nothing is left.
func goesOn(d *scripttest.Driver, sc *scene, t *turn) {
	d.Helper()
	there := append(slices.Concat(sc.holds, sc.waits), "n1")
	there = slices.DeleteFunc(there, func(id string) bool { return slices.Contains(t.ends, id) || id == "n1" && t.begins != id })
	for end := time.Now().Add(scripttest.Soon); len(there) > 0; {
		if time.Now().After(end) {
			d.Fatalf("%q wait for ever: %v", there, d.Look())
		}
		for i, ticket := range d.Poll(there...).Tickets {
			switch id := there[i]; ticket.Outcome {
			case script.Held:
				d.Release(id)
				there = slices.Delete(there, i, i+1)
			case script.Over: // it was lost
				if t.tries && id == t.begins {
					there = slices.Delete(there, i, i+1)
					break
				}
				d.Acquire(scripttest.Acquire{ID: id, Mode: modes[id[0]]})
				continue
			default:
				continue
			}
			break
		}
	}
	d.Settle()
	if left := d.Look(); left.Holder.Exists() || left.Queue.Exists() || left.ReadQueue.Exists() || left.Tickets.Exists() {
		d.Errorf("left: %v", left)
	}
}

var modes = map[byte]core.Mode{'w': core.Write, 'r': core.Read, 'f': core.Fair, 'n': core.Exclusive}
