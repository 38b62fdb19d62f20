package script_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/test/suite"
)

// Whatever another client has stored at the keys of a lock, the scripts leave it as it is: they refuse with a typed error, or
// do without the key.
func TestReadersScriptsLeaveStrangersAlone(t *testing.T) {
	race.FindsNothing(t)
	suite.NeedsFull(t, "has each script meet each kind of key at each place")
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		situations := map[string]func(){
			"free": func() {},
			"read": func() { d.Read("a"); d.Write("b"); d.Read("c") },
			"to be released": func() {
				d.Write("a")
				d.Read("b")
				d.Keep("c", "t", time.Minute)
			},
		}
		for where, key := range places(d) {
			for kind, put := range strangers(d) {
				if key.couldHave(kind) {
					continue
				}
				for situation, prepare := range situations {
					for what, op := range everything(d) {
						d.Redis.FlushAll(d.Context())
						prepare()
						d.Redis.Del(d.Context(), key.name)
						if err := put(key.name); err != nil {
							d.Fatal(err)
						}
						before := d.Redis.Dump(d.Context(), key.name).Val()
						if err := answerOf(d, op); err != nil && !strings.Contains(err.Error(), "WRONGTYPE") {
							d.Errorf("%s, a %s at the %s: %s failed: %v", situation, kind, where, what, err)
						}
						if d.Redis.Dump(d.Context(), key.name).Val() != before {
							d.Errorf("%s, a %s at the %s: %s changed it", situation, kind, where, what)
						}
						if ttl := d.Redis.PTTL(d.Context(), key.name).Val(); ttl > 0 {
							d.Errorf("%s, a %s at the %s: it will expire in %v after %s", situation, kind, where, ttl, what)
						}
					}
				}
			}
		}
	})
}

// A place is a key, and the value that the scripts store there.
type place struct{ name, ours string }

// couldHave reports whether the scripts cannot distinguish this foreign value from their own.
func (p place) couldHave(kind string) bool { return p.ours != "" && strings.HasPrefix(kind, p.ours) }

func places(d *scripttest.Driver) map[string]place {
	return map[string]place{
		"holder":           {d.Keys.Holder(), ""},
		"queue":            {d.Keys.Queue(), "zset"},
		"queue of readers": {d.Keys.ReadQueue(), "zset"},
		"tickets":          {d.Keys.Tickets(), "hash"},
		"counter":          {d.Keys.Fence(), ""},
		"processes":        {d.Keys.Alive(), "hash"},
		"kept place":       {d.Keys.Kept("t"), ""}, // but no done mark: nobody else knows the ids
	}
}

func strangers(d *scripttest.Driver) map[string]func(key string) error {
	ctx := d.Context()
	return map[string]func(key string) error{
		"string":           func(key string) error { return d.Redis.Set(ctx, key, "theirs", 0).Err() },
		"list":             func(key string) error { return d.Redis.RPush(ctx, key, "theirs").Err() },
		"set":              func(key string) error { return d.Redis.SAdd(ctx, key, "theirs").Err() },
		"hash":             func(key string) error { return d.Redis.HSet(ctx, key, "id", "theirs", "token", "5").Err() },
		"hash with a mode": func(key string) error { return d.Redis.HSet(ctx, key, "mode", "read", "name", "theirs").Err() },
		"zset":             func(key string) error { return d.Redis.ZAdd(ctx, key, member("theirs", "5")).Err() },
	}
}

// everything lists one execution of each script for the id a, and a poll by another id.
func everything(d *scripttest.Driver) map[string]scripttest.Operation {
	acquire := func(a scripttest.Acquire) scripttest.Operation {
		a.ID = "a"
		return a.Operation(d)
	}
	a := scripttest.ID("a")
	return map[string]scripttest.Operation{
		"read":      acquire(scripttest.Acquire{Mode: core.Read}),
		"try":       acquire(scripttest.Acquire{Mode: core.Read, Try: true}),
		"write":     acquire(scripttest.Acquire{Mode: core.Write}),
		"fair":      acquire(scripttest.Acquire{Mode: core.Fair, Place: "t", KeepPlace: time.Minute}),
		"fair try":  acquire(scripttest.Acquire{Mode: core.Fair, Try: true, Place: "t", KeepPlace: time.Minute}),
		"lost":      acquire(scripttest.Acquire{Mode: core.Read, Predecessor: "c", PredecessorPlace: 5}),
		"poll":      d.Polls(time.Second, "a", "b"),
		"renew":     &script.Renew{Keys: d.Keys, ID: a, Lease: time.Second},
		"release":   &script.Release{Keys: d.Keys, ID: a},
		"linger":    &script.Release{Keys: d.Keys, ID: a, Linger: time.Second},
		"give up":   &script.Release{Keys: d.Keys, ID: a, Mark: true, Place: "t"},
		"cancel":    &script.Cancel{Keys: d.Keys, ID: "a", Mark: true},
		"disown":    &script.Disown{Keys: d.Keys, UpTo: 10}, // which is a
		"go away":   &script.Cancel{Keys: d.Keys, ID: "a", Mark: true, Place: "t", KeepPlace: time.Minute},
		"undo":      &script.Cancel{Keys: d.Keys, ID: "a", Mark: true, Place: "t", EndPlace: 1},
		"downgrade": &script.Downgrade{Keys: d.Keys, ID: a},
		"force":     &script.Force{Keys: d.Keys, Token: 5, Owner: "owner-a"},
		"look":      &script.Look{Keys: d.Keys},
		"beat":      &script.Beat{Alive: d.Keys.Alive(), Inbox: d.Inbox("a")},
		"status":    &script.Status{Keys: d.Keys, Kept: []string{"t"}},
	}
}

// answerOf runs op, and reads the answer to an acquire, a look or a status.
func answerOf(d *scripttest.Driver, op scripttest.Operation) error {
	d.Helper()
	r := d.Send(op)
	switch op.(type) {
	case *script.Acquire:
		_, err := script.AcquireAnswer(r, "")
		return err
	case *script.Look:
		_, err := script.LookAnswer(r)
		return err
	case *script.Status:
		_, err := script.StatusAnswer(r)
		return err
	}
	return r.Err
}

// With a foreign value in the way, the hold or ticket of an id still ends at the second try.
func TestAStrangerDoesNotKeepAReaderFromLeaving(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		cases := 0
		for _, where := range []string{"queue", "queue of readers", "tickets", "counter"} {
			for kind, put := range strangers(d) {
				key := places(d)[where]
				if key.couldHave(kind) {
					continue
				}
				for what, end := range map[string]func(id string) scripttest.Operation{
					"cancel": func(id string) scripttest.Operation { return &script.Cancel{Keys: d.Keys, ID: id, Mark: true} },
					"disown": func(id string) scripttest.Operation {
						n, _ := script.IDStem("").Number(id)
						return &script.Disown{Keys: d.Keys, UpTo: n, InUse: []uint64{n - 1}}
					},
					"release": func(id string) scripttest.Operation { return &script.Release{Keys: d.Keys, ID: scripttest.ID(id)} },
				} {
					if cases++; !suite.Full() && cases%4 != 0 {
						continue
					}
					d.Redis.FlushAll(d.Context())
					d.Read("a")
					d.Write("b")
					d.Read("c")
					d.Redis.Del(d.Context(), key.name)
					_ = put(key.name)
					for range 2 {
						_ = d.Send(end("a"))
					}
					if sc := d.Look(); sc.Has("a") {
						d.Errorf("a %s at the %s: a reads after its %s", kind, where, what)
					}
					if what == "cancel" {
						for range 2 {
							_ = d.Send(end("c"))
						}
						if sc := d.Look(); sc.Waits("c") || d.Redis.Exists(d.Context(), d.Keys.Done("c")).Val() == 0 {
							d.Errorf("a %s at the %s: c is not cancelled", kind, where)
						}
					}
				}
			}
		}
	})
}

// member is an element of a sorted set, with a score as Redis prints it.
func member(name, score string) redis.Z {
	x, _ := strconv.ParseFloat(score, 64)
	return redis.Z{Member: name, Score: x}
}
