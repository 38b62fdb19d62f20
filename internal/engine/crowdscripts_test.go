package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

// ids returns names that begin with a letter.
func ids(letter string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(letter, i)
	}
	return all
}

// queues has many wait to read; what is left is checked once.
func (d *desk) queues(subscribed bool, all ...string) {
	d.Helper()
	tidy := d.tidy
	d.tidy = false
	for _, id := range all {
		if got := d.asks(ask{id: id, mode: core.Read, subscribed: subscribed}); got.kind != 0 {
			d.Fatalf("%s: %+v", id, got)
		}
	}
	d.tidy = tidy
	if tidy {
		d.checkTidy()
	}
}

// A run lets in a bounded number. The rest follows before any writer does.
func TestAllWhoWaitToReadAreLetInBeforeAWriter(t *testing.T) {
	for _, n := range []int{manyReaders, manyReaders + 1, 300} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			onCrowdedDesk(t, func(d *desk) {
				token := d.write("w").token
				all := ids("r", n)
				d.queues(false, all[:n/2]...)
				d.write("v")
				d.queues(false, all[n/2:]...)
				kind := d.release("w", 0)
				if want := n > manyReaders; (kind == 2) != want {
					d.Errorf("the release answered %d", kind)
				}
				d.wantReaders(all[:min(n, manyReaders)]...)
				// They come in between two batches.
				d.write("u")
				late := d.read("late")
				try := d.asks(ask{id: "try", mode: core.Write, try: true})
				if try.kind != 0 || late.kind != 0 {
					d.Errorf("a writer's try: %+v, a reader that comes later: %+v", try, late)
				}
				d.settles()
				d.wantReaders(all...)
				polled, _ := d.polls(all[0], all[n-1], "late", "v")
				if polled[0].token != token || polled[1].token != token || polled[2].kind != 0 || polled[3].kind != 0 {
					d.Errorf("the first, the last, a later one and a writer are told %+v", polled)
				}
				d.tidy = false
				for _, id := range all {
					d.release(id, 0)
				}
				d.tidy = true
				d.wantWriter("v")
				d.release("v", 0)
				d.wantReaders("late")
			})
		})
	}
}

// If the first ones leave before the rest is let in, no writer comes in between all the same.
func TestTheRestOfABatchIsLetInWhenTheFirstHaveLeft(t *testing.T) {
	onCrowdedDesk(t, func(d *desk) {
		d.write("w")
		all := ids("r", manyReaders+10)
		d.queues(false, all...)
		d.write("v")
		d.wantKind("release", d.release("w", 0), 2)
		d.tidy = false
		for _, id := range all[:manyReaders] { // as if they had been fast
			d.release(id, 0)
		}
		d.tidy = true
		d.settles()
		d.wantReaders(all[manyReaders:]...)
		d.tidy = false
		for _, id := range all[manyReaders:] {
			d.release(id, 0)
		}
		d.tidy = true
		d.wantWriter("v")
	})
}

// A reader that finds the end of a batch on its way is not lost, nor the batch.
func TestAReaderThatComesBetweenTwoBatches(t *testing.T) {
	onCrowdedDesk(t, func(d *desk) {
		d.write("w")
		all := ids("r", 2*manyReaders+10)
		d.queues(false, all...)
		d.wantKind("release", d.release("w", 0), 2)
		d.wantHeld("a reader, with nobody waiting to write", d.read("late"))
		again := d.asks(ask{id: all[len(all)-1], mode: core.Read}) // a late copy
		d.wantHeld("the last one's acquire, once more", again)
		if left := d.ends(all[len(all)-1]).Sub(d.look().now); left < askedLease-2*time.Second {
			d.Errorf("it is told that it reads for %v, and does for %v", askedLease, left)
		}
		d.settles()
		d.wantReaders(append(all, "late")...)
	})
}

func TestDeadReadersAreDropped(t *testing.T) {
	onClock(t, func(d *desk, later func(time.Duration)) {
		d.write("w")
		dead := ids("d", 2*manyReaders)
		d.queues(false, dead...)
		d.read("alive")
		d.write("v")
		for range 5 {
			later(pollInterval)
			d.polls("alive", "v")
			d.renew("w", time.Minute)
		}
		d.release("w", 0)
		d.settles()
		d.wantReaders("alive")
		for _, id := range dead {
			if d.look().waits(id) {
				d.Fatalf("%s is still queued", id)
			}
		}
		d.release("alive", 0)
		d.wantWriter("v")
		d.release("v", 0)
		d.wantNothingLeft()
	})
}

// With nobody alive on the one side, the other has its turn.
func TestDeadTicketsOfOneSideDoNotKeepTheOtherOut(t *testing.T) {
	for name, dead := range map[string]struct {
		mode core.Mode
		n    int
	}{
		"readers":      {core.Read, 3},
		"many readers": {core.Read, manyReaders + 9},
		"writers":      {core.Write, 3},
		"many writers": {core.Write, budget + 9},
	} {
		for _, free := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, held for reading: %t", name, !free), func(t *testing.T) {
				onClock(t, func(d *desk, later func(time.Duration)) {
					other, end := core.Read, "r"
					if dead.mode == core.Read {
						other = core.Write
					}
					d.asks(ask{id: "r", mode: core.Read, lease: time.Hour})
					if free {
						d.write("w")
						d.release("r", 0)
						end = "w"
					} else if other == core.Read {
						end = ""
					}
					if dead.mode == core.Read && !free {
						d.write("first") // or they would not wait
					}
					d.tidy = false
					for _, id := range ids("d", dead.n) {
						d.asks(ask{id: id, mode: dead.mode})
					}
					d.asks(ask{id: "alive", mode: other})
					d.tidy = true
					for range 5 {
						later(pollInterval)
						d.poll("alive")
						d.renew("w", time.Hour)
					}
					if end != "" {
						d.release(end, 0)
					}
					d.settles()
					if !d.look().has("alive") {
						d.Errorf("it waits still: %v", d.look())
					}
				})
			})
		}
	}
}

// After readers a writer has its turn, even if many writers before it are dead.
func TestDeadWritersDoNotCostALiveOneItsTurn(t *testing.T) {
	onClock(t, func(d *desk, later func(time.Duration)) {
		d.asks(ask{id: "r", mode: core.Read, lease: time.Hour})
		d.tidy = false
		for _, id := range ids("d", budget+8) {
			d.write(id)
		}
		d.tidy = true
		later(pollInterval)
		d.read("s")
		d.write("alive")
		for range 3 { // in the last of these the others are not dead yet
			later(pollInterval - 10*time.Millisecond)
			d.polls("s", "alive")
		}
		later(50 * time.Millisecond)
		d.release("r", 0)
		d.settles()
		d.wantWriter("alive")
	})
}

// hearing makes somebody listen on the inboxes of these ids.
func (d *desk) hearing(all ...string) {
	d.Helper()
	channels := make([]string, len(all))
	for i, id := range all {
		channels[i] = "lockmw:inbox:" + id
	}
	pubsub := d.rdb.Subscribe(d.Context(), channels...)
	d.Cleanup(func() { _ = pubsub.Close() })
	for range channels {
		if m, err := pubsub.ReceiveTimeout(d.Context(), soon); err != nil {
			d.Fatal(err)
		} else if _, ok := m.(*redis.Subscription); !ok {
			d.Fatalf("%v", m)
		}
	}
}

// Whose process is certainly gone is passed over, and stays in the queue.
func TestMuteReadersArePassedOver(t *testing.T) {
	onClock(t, func(d *desk, later func(time.Duration)) {
		d.hearing("heard")
		d.write("w")
		d.queues(true, "mute1", "heard", "mute2")
		d.asks(ask{id: "unsubscribed", mode: core.Read})
		later(pollInterval + 50*time.Millisecond)
		d.release("w", 0)
		d.wantReaders("heard", "unsubscribed")
		d.wantKind("poll of one that was passed over", d.poll("mute1"), 1)
		d.wantReaders("heard", "unsubscribed", "mute1")
	})
}

func TestMuteReadersDoNotKeepAWriterOut(t *testing.T) {
	onClock(t, func(d *desk, later func(time.Duration)) {
		d.write("w")
		d.queues(true, "mute1", "mute2")
		d.write("v")
		later(pollInterval + 50*time.Millisecond)
		d.poll("v")
		d.release("w", 0)
		d.wantWriter("v")
		d.release("v", 0) // nobody else is left: they are let in whether they listen or not
		d.wantReaders("mute1", "mute2")
	})
}

// If nobody seems to listen, the subscriptions may be what is broken.
func TestIfAllAreMuteTheFirstHaveTheirTurn(t *testing.T) {
	onClock(t, func(d *desk, later func(time.Duration)) {
		d.write("w")
		d.queues(true, "r", "s")
		d.asks(ask{id: "v", mode: core.Write, subscribed: true})
		later(pollInterval + 50*time.Millisecond)
		d.release("w", 0)
		if sc := d.look(); sc.holds() != "v" && len(sc.readers()) != 2 {
			d.Errorf("nobody has the lock: %v", sc)
		}
		d.cancel("v")
		d.wantReaders("r", "s")
	})
}

// Some that do not listen are no reason to make others wait for another phase.
func TestMuteReadersDoNotStopABatch(t *testing.T) {
	for name, mute := range map[string]int{"one": 1, "half a batch": manyReaders / 2} {
		t.Run(name, func(t *testing.T) {
			onClock(t, func(d *desk, later func(time.Duration)) {
				d.write("w")
				d.queues(true, ids("mute", mute)...)
				all := ids("r", 300)
				d.queues(false, all...)
				d.write("v")
				later(pollInterval + 50*time.Millisecond)
				d.poll("v")
				d.release("w", 0)
				d.settles()
				d.wantReaders(all...)
			})
		})
	}
}

// The one that waits to write does not listen, and those that wait to read are dead.
func TestAWriterThatDoesNotListenIsTheLastOfTheQueue(t *testing.T) {
	onClock(t, func(d *desk, later func(time.Duration)) {
		d.wantHeld("r0", d.read("r0"))
		d.wantQueued("w", d.asks(ask{id: "w", mode: core.Write, subscribed: true}), 1, 1)
		d.wantQueued("r1", d.read("r1"), 1, 2)
		for range 3 {
			later(pollInterval)
			d.run(d.scripts.poll, d.keys(), "+", "w", askedLease.Milliseconds())
		}
		later(pollInterval + 10*time.Millisecond)
		d.release("r0", 0)
		sc := d.look()
		if sc.holds() != "w" || sc.holder.fields["wanted"] == "1" {
			d.Errorf("w is to hold the lock and nobody to want it: %v", sc)
		}
	})
}

// A release may overtake the downgrade before it.
func TestABatchLeavesToOthersWhatWasDowngraded(t *testing.T) {
	onDesk(t, func(d *desk) {
		d.wantHeld("w", d.write("w"))
		d.wantKind("downgrade", d.downgrade("w"), 1)
		r := d.run(newScripts(true).release.bulk.script, []string{d.name.holder, d.name.queue()}, "w")
		if r.err != nil || fmt.Sprint(r.values) != "[-1]" {
			d.Errorf("the batch answers %v, %v", r.values, r.err)
		}
		d.release("w", 0)
		if sc := d.look(); sc.holder.exists() {
			d.Errorf("the lock is not free: %v", sc)
		}
	})
}
