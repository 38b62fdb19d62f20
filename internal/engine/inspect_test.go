package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

func (d *desk) inspector() *Inspector {
	d.Helper()
	i, err := NewInspector(d.rdb, "lockmw")
	if err != nil {
		d.Fatal(err)
	}
	return i
}

// status is what an Inspector says of the lock.
func (d *desk) status() *Status {
	d.Helper()
	s, err := d.inspector().Get(d.Context(), d.T.Name())
	if err != nil {
		d.Fatal(err)
	}
	return s
}

func TestAnInspectorSeesReadersAndWhoWaits(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		if s := d.status(); s.Mode != "" || len(s.Holders) != 0 || len(s.Waiters) != 0 {
			d.Errorf("a free lock is %+v", s)
		}
		token := d.asks(ask{id: "a", mode: core.Read, lease: time.Hour, trace: "00-trace"}).token
		d.read("b")
		d.read("over")
		d.write("w")
		d.read("r")
		d.keeps("f", "t", time.Minute)
		d.keeps("away", "u", time.Minute)
		d.goesAway("away", "u", time.Minute)
		d.expire("over")
		s := d.status()
		if s.Mode != core.Read.String() || len(s.Holders) != 2 {
			d.Fatalf("it has %+v", s)
		}
		a := s.Holders[0]
		if a.Owner != "owner-a" || a.Process != "a" || a.TraceParent != "00-trace" || a.Token != token ||
			a.TTL > time.Hour || a.TTL < time.Hour-time.Minute || time.Since(a.Since) > time.Minute {
			d.Errorf("the first reader is %+v", a)
		}
		if b := s.Holders[1]; b.Owner != "owner-b" || b.TTL > askedLease || b.Token != token {
			d.Errorf("the second reader is %+v", b)
		}
		var waiters []string
		for _, w := range s.Waiters {
			waiters = append(waiters, w.Ticket+" "+w.Mode)
			if w.Process != w.Ticket || time.Since(w.Since) > time.Minute {
				d.Errorf("a waiter is %+v", w)
			}
		}
		if got := fmt.Sprint(waiters); got != "[w write r read f fair]" {
			d.Errorf("the queue is %s", got)
		}
		for key, err := range d.inspector().Keys(d.Context()) {
			if err != nil || key != d.T.Name() {
				d.Errorf("among the keys is %q, %v", key, err)
			}
		}
	})
}

func TestAnInspectorTakesTheLockFromAReader(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.read("a")
		d.read("b")
		d.write("w")
		for _, h := range d.status().Holders {
			if err := d.inspector().ForceUnlock(d.Context(), d.T.Name(), h); err != nil {
				d.Errorf("%s: %v", h.Owner, err)
			}
			if err := d.inspector().ForceUnlock(d.Context(), d.T.Name(), h); !errors.Is(err, core.ErrNotHeld) {
				d.Errorf("%s, once more: %v", h.Owner, err)
			}
		}
		d.wantWriter("w")
	})
}

func TestAnInspectorIsNotFooledByStrangers(t *testing.T) {
	onDesk(t, func(d *desk) {
		for _, fields := range [][]any{
			{"mode", "read"}, {"mode", "read", "token", "x", "next", "5", "reader:a", "9 9 i o t"},
			{"mode", "read", "token", "5", "next", "5", "reader:a", "x"}, {"mode", "read", "token", "5", "next", "5", "reader:a", "x 9 i o t"},
			{"id", "a"},
		} {
			d.rdb.Del(d.Context(), d.name.holder)
			d.rdb.HSet(d.Context(), d.name.holder, fields...)
			if s, err := d.inspector().Get(d.Context(), d.T.Name()); !errors.Is(err, core.ErrWrongType) {
				d.Errorf("%v is %+v, %v", fields, s, err)
			}
		}
	})
}
