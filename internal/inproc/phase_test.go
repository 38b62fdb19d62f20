package inproc_test

import (
	"testing"

	"github.com/lockmw/go/internal/core"
)

func TestTheEndOfAWriterAdmitsAllWaitingReaders(t *testing.T) {
	bubble(t, func(r *rig) {
		first := r.write()
		before, second, between, third, after := r.read(), r.write(), r.read(), r.write(), r.read()
		r.release(first)
		r.holds(before, between, after)
		r.wait(second, third)
		late := r.read()
		r.wait(late)
		r.release(before, between)
		r.wait(second)
		r.release(after)
		r.holds(second) // one writer ends the wait of the reader that came late
		r.wait(third, late)
		r.release(second)
		r.holds(late)
		r.wait(third)
		r.release(late, third)
	})
}

func TestDowngradeAdmitsAllReadersAndNoWriter(t *testing.T) {
	bubble(t, func(r *rig) {
		c := r.write()
		writer, one, other, two := r.write(), r.read(), r.write(), r.read()
		token := c.hold.Token()
		r.downgrade(c)
		r.holds(one, two)
		r.wait(writer, other)
		late := r.read()
		r.wait(late)
		r.downgrade(c) // repeated
		r.wait(writer, other, late)
		for _, h := range []core.Hold{c.hold, one.hold, two.hold} {
			if h.Token() != token {
				t.Errorf("a reader has token %d, the writer had %d", h.Token(), token)
			}
		}
		r.release(c, one)
		r.wait(writer)
		r.release(two)
		r.holds(writer)
		r.wait(other, late)
		r.release(writer, late, other)
	})
}
