package script_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// A replica may not have the hold of an id, and refuses writes. So a script tries to write before it answers "not held".
// Otherwise a caller that is still connected to a deposed master would be told that its lock is lost.
func TestNobodyIsToldByAReplicaThatThereIsNoHold(t *testing.T) {
	tick := core.Tick{At: time.Now(), Within: time.Minute, Keep: time.Minute}
	ops := map[string]func(d *scripttest.Driver) scripttest.Operation{
		"release": func(d *scripttest.Driver) scripttest.Operation {
			return &script.Release{Keys: d.Keys, ID: scripttest.ID("x")}
		},
		"release of a permit": func(d *scripttest.Driver) scripttest.Operation {
			return &script.Release{Keys: d.Keys, ID: scripttest.ID("x"), Permit: true}
		},
		"renewal": func(d *scripttest.Driver) scripttest.Operation {
			return &script.Renew{Keys: d.Keys, ID: scripttest.ID("x"), Lease: time.Minute}
		},
		"downgrade": func(d *scripttest.Driver) scripttest.Operation {
			return &script.Downgrade{Keys: d.Keys, ID: scripttest.ID("x")}
		},
		"release by force": func(d *scripttest.Driver) scripttest.Operation {
			return &script.Force{Keys: d.Keys, Token: 5, Owner: "x"}
		},
		"release of a permit by force": func(d *scripttest.Driver) scripttest.Operation {
			return &script.Force{Keys: d.Keys, Token: 5, Owner: "x", Permit: true}
		},
		"begin of a tick": func(d *scripttest.Driver) scripttest.Operation {
			return &script.Begin{Keys: d.Keys, ID: scripttest.ID("x"), Token: 5, Tick: tick}
		},
	}
	scenes := map[string]func(d *scripttest.Driver){
		"nothing":       func(*scripttest.Driver) {},
		"a lock":        func(d *scripttest.Driver) { d.Lock("other") },
		"a reader":      func(d *scripttest.Driver) { d.Acquire(scripttest.Acquire{ID: "other", Mode: core.Read}) },
		"a permit":      func(d *scripttest.Driver) { d.AcquirePermit(scripttest.Permit{ID: "other", N: 2}) },
		"another queue": func(d *scripttest.Driver) { d.Lock("other"); d.Fair("next") },
	}
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		for scene, set := range scenes {
			for name, op := range ops {
				d.Redis.FlushAll(d.Context())
				set(d)
				operation := op(d)
				d.Refuse(refusals[0], writes...)
				r := d.Send(operation)
				d.EndAtTheEnd()
				kinds := strings.Contains(name, "permit") != (scene == "a permit")
				if r.Err == nil || !strings.Contains(r.Err.Error(), "READONLY") && (!kinds || !strings.Contains(r.Err.Error(), "WRONGTYPE")) {
					d.Errorf("%s where there is %s: %v", name, scene, r.Err)
				}
			}
			d.Redis.FlushAll(d.Context())
			set(d)
			keys := []string{d.Keys.Holder(), d.Keys.Queue()}
			answer, err := d.Eval("release_batch", keys, "x")
			if got, _ := numbers(answer, err); len(got) != 1 || got[0] != -1 {
				d.Errorf("release_batch where there is %s answers %v, %v: it is to leave that to the release", scene, got, err)
			}
		}
	})
}
