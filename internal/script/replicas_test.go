package script_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/test/suite"
)

// One key of a pipeline has moved to a node with a replica that keeps up. That says nothing of the others.
func TestARedirectedRunAcknowledgesNoOther(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 2, 1)
	scripts, layout := script.NewSet(script.DefaultParams(true)), script.NewLayout("lockmw", true)
	sender := script.NewSender(c.Client(t), script.Topology{Cluster: true}, time.Second, script.Replicas{Count: 1, Timeout: time.Second})
	t.Cleanup(sender.Stop)
	moves, stays := layout.KeySet(c.KeyAt(0)), layout.KeySet(c.KeyAt(0))
	stem := script.IDStem("a")
	id := stem.New(1)
	send := func(prepare func(context.Context, *script.Set, func(*script.Reply)) *script.Call) {
		t.Helper()
		answer := make(chan *script.Reply, 1)
		sender.Start(prepare(t.Context(), scripts, func(r *script.Reply) { answer <- r }))
		if r := <-answer; r.Err != nil || r.Few != nil {
			t.Fatal(r.Err, r.Few)
		}
	}
	for _, keys := range []*script.KeySet{&moves, &stays} {
		send((&script.Acquire{Keys: keys, ID: id, Lease: time.Hour, Inbox: ""}).Call)
		send((&script.Renew{Keys: keys, ID: id, Lease: time.Hour}).Call) // the node knows the script from here on
	}
	c.Move(moves.Holder())
	for _, replica := range c.Replicas(0) {
		c.Nodes[replica].Pause(t)
	}
	var few [2]error
	var batch []*script.Call
	for i, keys := range []*script.KeySet{&moves, &stays} {
		n := script.Renew{Keys: keys, ID: id, Lease: time.Hour}
		batch = append(batch, n.Call(t.Context(), scripts, func(r *script.Reply) {
			if r.Err != nil {
				t.Error(r.Err)
			}
			few[i] = r.Few
		}))
	}
	sender.RunBatch(t.Context(), batch)
	if few[0] != nil {
		t.Errorf("what has moved: %v", few[0])
	}
	if few[1] == nil {
		t.Error("what has stayed counts as acknowledged, by a replica that hangs")
	}
}

// changes returns how many changes of its data the server has counted.
func changes(d *scripttest.Driver) string {
	d.Helper()
	info, err := d.Redis.Info(d.Context(), "persistence").Result()
	if err != nil {
		d.Fatal(err)
	}
	_, after, found := strings.Cut(info, "rdb_changes_since_last_save:")
	if !found {
		d.Fatalf("the server does not count its changes: %s", info)
	}
	return after[:strings.IndexByte(after, '\r')]
}

// As for a grant, and a copy of the run has to write, too.
func TestARunThatSaysWhatBecameOfATickHasWritten(t *testing.T) {
	d := scripttest.New(t, redistest.Redis(t).NewClient(t), "job")
	d.WantHeld("the job", d.Acquire(scripttest.Acquire{ID: "a", Mode: core.Fair, Lease: time.Hour}))
	tick := tickNow()
	token := d.Token()
	for _, run := range []struct {
		what string
		run  func()
	}{
		{"begin", func() { wantBegun(d, "it", d.Begin("a", token, tick), core.TickBegun) }},
		{"mark", func() {
			if d.Mark(token, tick) {
				t.Error("another hold has begun it")
			}
		}},
	} {
		for copy := range 3 {
			before := changes(d)
			run.run()
			if changes(d) == before {
				t.Errorf("run %d of %s has written nothing", copy+1, run.what)
			}
		}
	}
	d.Release("a")
}

// WAIT asks for what was written on its connection: a run that says "held" without a write would count at once.
func TestARunThatSaysHeldHasWritten(t *testing.T) {
	d := scripttest.New(t, redistest.Redis(t).NewClient(t), "item")
	for _, mode := range []core.Mode{core.Exclusive, core.Read} {
		first := scripttest.Acquire{ID: "a1" + mode.String(), Mode: mode, Lease: time.Hour}
		d.WantHeld("the first", d.Acquire(first))
		again := first
		again.Lease = time.Second // the lease has not to be longer for that
		for what, run := range map[string]func(){
			"a repeated acquire": func() { d.WantHeld("again", d.Acquire(again)) },
			"a renewal": func() {
				d.WantRenewed("it", d.Renew(again.ID, again.Lease), script.Renewed{Outcome: script.Done})
			},
		} {
			before := changes(d)
			run()
			if changes(d) == before {
				t.Errorf("%s of mode %v has written nothing", what, mode)
			}
			if left := d.Redis.PTTL(t.Context(), d.Keys.Holder()).Val(); left < time.Hour/2 {
				t.Errorf("%s of mode %v has left a lease of %v", what, mode, left)
			}
		}
		d.Release(again.ID)
	}
}
