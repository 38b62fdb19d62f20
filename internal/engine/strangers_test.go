package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

// Whatever somebody else has put where a lock keeps something, the scripts leave it as it is: they refuse
// with a typed error, or do without.
func TestReadersScriptsLeaveStrangersAlone(t *testing.T) {
	onDesk(t, func(d *desk) {
		situations := map[string]func(){
			"free": func() {},
			"read": func() { d.read("a"); d.write("b"); d.read("c") },
			"to be released": func() {
				d.write("a")
				d.read("b")
				d.keeps("c", "t", time.Minute)
			},
		}
		for where, key := range d.places() {
			for kind, put := range d.strangers() {
				if key.couldHave(kind) {
					continue
				}
				for situation, prepare := range situations {
					for what, run := range d.everything() {
						d.rdb.FlushAll(d.Context())
						prepare()
						d.rdb.HDel(d.Context(), d.name.tickets(), "#touched") // as if that were long ago
						d.rdb.Del(d.Context(), key.name)
						if err := put(key.name); err != nil {
							d.Fatal(err)
						}
						before := d.rdb.Dump(d.Context(), key.name).Val()
						if err := run(); err != nil && !strings.Contains(err.Error(), "WRONGTYPE") {
							d.Errorf("%s, a %s at the %s: %s failed: %v", situation, kind, where, what, err)
						}
						if d.rdb.Dump(d.Context(), key.name).Val() != before {
							d.Errorf("%s, a %s at the %s: %s changed it", situation, kind, where, what)
						}
						if ttl := d.rdb.PTTL(d.Context(), key.name).Val(); ttl > 0 {
							d.Errorf("%s, a %s at the %s: it will expire in %v after %s", situation, kind, where, ttl, what)
						}
					}
				}
			}
		}
	})
}

// A place is a key, and what the scripts keep there.
type place struct{ name, ours string }

// couldHave reports whether the scripts cannot tell such a stranger's from what they keep there.
func (p place) couldHave(kind string) bool { return p.ours != "" && strings.HasPrefix(kind, p.ours) }

func (d *desk) places() map[string]place {
	return map[string]place{
		"holder":           {d.name.holder, ""},
		"queue":            {d.name.queue(), "zset"},
		"queue of readers": {d.name.readers(), "zset"},
		"tickets":          {d.name.tickets(), "hash"},
		"counter":          {d.name.fence.(string), ""},
		"kept place":       {d.name.kept("t"), ""}, // but no done mark: nobody else knows the ids
	}
}

func (d *desk) strangers() map[string]func(key string) error {
	ctx := d.Context()
	return map[string]func(key string) error{
		"string":           func(key string) error { return d.rdb.Set(ctx, key, "theirs", 0).Err() },
		"list":             func(key string) error { return d.rdb.RPush(ctx, key, "theirs").Err() },
		"set":              func(key string) error { return d.rdb.SAdd(ctx, key, "theirs").Err() },
		"hash":             func(key string) error { return d.rdb.HSet(ctx, key, "id", "theirs", "token", "5").Err() },
		"hash with a mode": func(key string) error { return d.rdb.HSet(ctx, key, "mode", "read", "name", "theirs").Err() },
		"zset":             func(key string) error { return d.rdb.ZAdd(ctx, key, zAt("theirs", "5")).Err() },
	}
}

// everything is a run of each script for the id a, and by those who come.
func (d *desk) everything() map[string]func() error {
	acquire := func(a ask) func() error {
		a.id = "a"
		return func() error { _, err := d.ask(a); return err }
	}
	script := func(s *script, keys []string, args ...any) func() error {
		return func() error { _, err := d.try(s, keys, args...); return err }
	}
	special := d.keys(d.name.done("a"), d.name.kept("t"))
	return map[string]func() error{
		"read":      acquire(ask{mode: core.Read}),
		"try":       acquire(ask{mode: core.Read, try: true}),
		"write":     acquire(ask{mode: core.Write}),
		"fair":      acquire(ask{mode: core.Fair, ticket: "t", keep: time.Minute}),
		"fair try":  acquire(ask{mode: core.Fair, try: true, ticket: "t", keep: time.Minute}),
		"lost":      acquire(ask{mode: core.Read, former: "c", place: 5, mark: true}),
		"poll":      script(d.scripts.poll, d.keys(), "+", "a", 1000, "b", 1000),
		"renew":     script(d.scripts.renew, d.keys()[:1], "a", 1000),
		"release":   script(d.scripts.release, d.keys(), "a"),
		"linger":    script(d.scripts.release, d.keys(), "a", 1000, 0, 0),
		"give up":   script(d.scripts.release, special, "a", 0, doneMillis, doneMillis),
		"cancel":    script(d.scripts.cancel, special[:6], "a", doneMillis, 0),
		"go away":   script(d.scripts.cancel, special, "a", doneMillis, 60_000),
		"undo":      script(d.scripts.cancel, special, "a", doneMillis, -60_000),
		"downgrade": script(d.scripts.downgrade, d.keys(), "a"),
		"force":     script(d.scripts.force, d.keys(), "5", "owner-a"),
	}
}

// With a stranger in the way, what an id has ends all the same when that is asked for once more.
func TestAStrangerDoesNotKeepAReaderFromLeaving(t *testing.T) {
	onDesk(t, func(d *desk) {
		for _, where := range []string{"queue", "queue of readers", "tickets", "counter"} {
			for kind, put := range d.strangers() {
				key := d.places()[where]
				if key.couldHave(kind) {
					continue
				}
				for what, end := range map[string]func(id string) error{
					"cancel": func(id string) error {
						_, err := d.try(d.scripts.cancel, d.keys(d.name.done(id)), id, doneMillis, 0)
						return err
					},
					"release": func(id string) error { _, err := d.try(d.scripts.release, d.keys(), id); return err },
				} {
					d.rdb.FlushAll(d.Context())
					d.read("a")
					d.write("b")
					d.read("c")
					d.rdb.Del(d.Context(), key.name)
					_ = put(key.name)
					for range 2 {
						_ = end("a")
					}
					if sc := d.look(); sc.has("a") {
						d.Errorf("a %s at the %s: a reads after its %s", kind, where, what)
					}
					if what == "cancel" {
						for range 2 {
							_ = end("c")
						}
						if sc := d.look(); sc.waits("c") || d.rdb.Exists(d.Context(), d.name.done("c")).Val() == 0 {
							d.Errorf("a %s at the %s: c is not cancelled", kind, where)
						}
					}
				}
			}
		}
	})
}
