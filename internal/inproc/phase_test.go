package inproc_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

func TestWritersRunInTheOrderOfTheirCalls(t *testing.T) {
	bubble(t, func(r *rig) {
		first := r.write()
		waiting := []*call{r.write(), r.write(), r.write(within(time.Minute)), r.write(), r.write(within(time.Hour))}
		r.wait(waiting...)
		r.giveUp(waiting[1])
		pass(time.Minute)
		r.failed(waiting[2], core.ErrBusy)
		r.release(first)
		r.inOrder(waiting[0], waiting[3], waiting[4])
	})
}

func TestReadersShareAndExcludeWriters(t *testing.T) {
	bubble(t, func(r *rig) {
		one, two := r.read(), r.read()
		r.holds(one, two)
		r.failed(r.write(try), core.ErrBusy)
		writer := r.write()
		r.release(two)
		r.wait(writer)
		r.release(one)
		r.holds(writer)
		r.failed(r.read(try), core.ErrBusy)
		r.release(writer)
	})
}

func TestReadersQueueBehindAWaitingWriter(t *testing.T) {
	bubble(t, func(r *rig) {
		reader, writer := r.read(), r.write()
		late := r.read()
		r.wait(writer, late)
		r.failed(r.read(try), core.ErrBusy)
		r.release(reader)
		r.holds(writer)
		r.wait(late)
		r.release(writer)
		r.release(late)
	})
}

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

func TestReadersRunWhenTheWriterBeforeThemGivesUp(t *testing.T) {
	bubble(t, func(r *rig) {
		reader, writer, late := r.read(), r.write(), r.read()
		r.wait(writer, late)
		r.giveUp(writer)
		r.holds(late)

		writer = r.write(within(time.Second))
		later, impatient := r.read(), r.read(within(time.Second/2))
		pass(time.Second / 2)
		r.failed(impatient, core.ErrBusy)
		r.wait(writer, later)
		pass(time.Second / 2)
		r.failed(writer, core.ErrBusy)
		r.holds(later)
		r.release(reader, late, later)
	})
}

func TestReadersGoOnWaitingIfOneOfTwoWritersGivesUp(t *testing.T) {
	bubble(t, func(r *rig) {
		reader, first, late, second := r.read(), r.write(), r.read(), r.write()
		r.giveUp(first)
		r.wait(late, second)
		r.release(reader)
		r.holds(second)
		r.wait(late)
		r.release(second, late)
	})
}

func TestAReaderThatGivesUpAdmitsNobody(t *testing.T) {
	bubble(t, func(r *rig) {
		reader, writer, late := r.read(), r.write(), r.read()
		r.giveUp(late)
		r.wait(writer)
		r.release(reader, writer)

		writer = r.write()
		late, second, other := r.read(), r.write(), r.read()
		r.giveUp(late)
		r.wait(second, other)
		r.release(writer, other, second)
	})
}

func TestNeitherSideStarves(t *testing.T) {
	for _, crowd := range []struct {
		name        string
		mode, other core.Mode
	}{
		{"readers that keep coming delay a writer by one phase", core.Read, core.Write},
		{"writers that keep coming delay a reader by one phase", core.Write, core.Read},
	} {
		t.Run(crowd.name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				const work = 10 * time.Millisecond
				stop := make(chan struct{})
				for range 50 {
					go r.again(crowd.mode, work, stop)
					time.Sleep(work / 50)
				}
				for range 20 {
					start := time.Now()
					c := r.start(crowd.other)
					<-c.done
					if took := time.Since(start); took > work {
						t.Errorf("the other side waited for %v", took)
					}
					_, _ = c.hold.Release(0)
					time.Sleep(work / 3)
				}
				close(stop)
				pass(time.Second)
			})
		})
	}
}

// again takes the lock repeatedly, each time for as long as work takes.
func (r *rig) again(mode core.Mode, work time.Duration, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		c := r.start(mode)
		<-c.done
		time.Sleep(work)
		_, _ = c.hold.Release(0)
	}
}

func TestTokensRiseWithEachWriterAndAreThoseOfTheWriterBeforeForReaders(t *testing.T) {
	bubble(t, func(r *rig) {
		alone := r.read()
		if alone.hold.Token() == 0 {
			t.Error("a reader before all writers has no token")
		}
		first, early := r.write(), r.read()
		r.release(alone)
		elsewhere := r.write(func(c *call) { c.req.Key = "another" })
		r.release(first)
		late := r.read()
		if first.hold.Token() <= alone.hold.Token() || elsewhere.hold.Token() <= first.hold.Token() {
			t.Errorf("writers have tokens %d and %d after %d",
				first.hold.Token(), elsewhere.hold.Token(), alone.hold.Token())
		}
		for _, c := range []*call{early, late} {
			if c.hold.Token() != first.hold.Token() {
				t.Errorf("a reader has token %d after a writer with %d", c.hold.Token(), first.hold.Token())
			}
		}
		r.release(early, late, elsewhere)
		again := r.read()
		if again.hold.Token() < first.hold.Token() {
			t.Errorf("a later reader has token %d, less than the writer's %d", again.hold.Token(), first.hold.Token())
		}
		last := r.write()
		r.release(again, last)
		if last.hold.Token() <= again.hold.Token() {
			t.Errorf("a writer has token %d after a reader with %d", last.hold.Token(), again.hold.Token())
		}
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
		r.downgrade(c) // once more
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

func TestADowngradedHoldCanBeJoined(t *testing.T) {
	bubble(t, func(r *rig) {
		c := r.write()
		r.downgrade(c)
		joined := r.read()
		r.holds(joined)
		r.release(c)
		r.failed(r.write(try), core.ErrBusy)
		r.downgrade(joined) // that of a reader changes nothing
		r.release(joined)
	})
}

func TestDowngradeOfWhatIsOver(t *testing.T) {
	bubble(t, func(r *rig) {
		released := r.write()
		r.release(released)
		r.is("Downgrade after Release", released.hold.Downgrade(context.Background()), core.ErrNotHeld)

		lost, reader, writer := r.write(fixed(time.Second)), r.read(), r.write()
		pass(time.Second)
		r.is("Downgrade after the loss", lost.hold.Downgrade(context.Background()), core.ErrLost)
		r.release(reader)
		next := r.read()
		r.is("Downgrade after the loss", lost.hold.Downgrade(context.Background()), core.ErrLost)
		r.holds(writer)
		r.wait(next)
		r.release(writer, next)
	})
}
