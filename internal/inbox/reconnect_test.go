package inbox_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/inbox"
)

// lose has the inbox be subscribed to, and then the server be unreachable. The first try, at that time, is that of go-redis.
func (b *bubble) lose() {
	b.Helper()
	b.subscribe(b.box)
	b.tries()
	b.mu.Lock()
	b.start = time.Now()
	b.mu.Unlock()
	b.wire.Cut()
	synctest.Wait()
}

// pausesOf returns the times between tries.
func pausesOf(tries []time.Duration) (pauses []time.Duration) {
	for i := range len(tries) - 1 {
		pauses = append(pauses, tries[i+1]-tries[i])
	}
	return pauses
}

// wantPauses checks the pauses after a connection has failed.
func (b *bubble) wantPauses(pauses []time.Duration) {
	b.Helper()
	for i, pause := range pauses {
		longest := min(inbox.MinRetryPause<<i, inbox.MaxRetryPause)
		if shortest := inbox.MinRetryPause + (longest-inbox.MinRetryPause)/2; pause < shortest || pause > longest {
			b.Errorf("pause %d is %v, want %v to %v; all are %v", i, pause, shortest, longest, pauses)
		}
	}
}

// The pauses after the first are random, so that the processes of a server that was restarted do not come together.
func TestPausesBeforeTriesDoubleUpToASecond(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.lose()
		time.Sleep(20 * time.Second)
		pauses := pausesOf(b.tries())
		if len(pauses) < 15 {
			b.Fatalf("%d pauses within 20 s", len(pauses))
		}
		b.wantPauses(pauses)
		if last := len(pauses) - 1; pauses[last] == pauses[last-1] && pauses[last-1] == pauses[last-2] {
			b.Errorf("the pauses are not random: %v", pauses)
		}
	})
}

func TestASubscriptionBeginsThePausesAnew(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.lose()
		time.Sleep(10 * time.Second)
		b.wire.Restore()
		time.Sleep(inbox.MaxRetryPause)
		if !b.box.IsLive() {
			b.Fatal("not subscribed though the server can be reached")
		}
		b.lose()
		time.Sleep(10 * time.Second)
		b.wantPauses(pausesOf(b.tries()))
	})
}

// A call that begins to wait for a message ends the pause, but for the first 50 ms.
func TestHurryUpEndsAPause(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.lose()
		for range 5 {
			for start := time.Now(); len(b.tries()) == 0 || time.Since(b.start) < 2*time.Second; { // until one has just failed after long pauses
				if time.Sleep(time.Millisecond); time.Since(start) > time.Minute {
					b.Fatal("there are no tries")
				}
			}
			time.Sleep(inbox.MinRetryPause)
			if tries := b.tries(); len(tries) > 0 {
				b.Fatalf("there are tries at %v, in the middle of a pause", tries)
			}
			b.all.ReconnectNow(b.box)
			if tries := b.tries(); len(tries) != 1 {
				b.Errorf("HurryUp leads to tries at %v", tries)
			}
		}
		b.wire.Restore()
		time.Sleep(inbox.MinRetryPause)
		b.all.ReconnectNow(b.box)
		synctest.Wait()
		if !b.box.IsLive() {
			b.Error("HurryUp does not lead to a subscription")
		}
	})
}

// Many calls may begin to wait while a server is unreachable.
func TestHurryUpDoesNotShortenAPauseBelowTheShortest(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.lose()
		for range 10_000 {
			b.all.ReconnectNow(b.box)
			time.Sleep(100 * time.Microsecond)
		}
		for i, pause := range pausesOf(b.tries()) {
			if pause < inbox.MinRetryPause {
				b.Errorf("pause %d is %v", i, pause)
			}
		}
	})
}

// If no message can matter, a process tries once, as a server may have closed idle connections. Then it waits until one can.
func TestAnIdleProcessDoesNotTryAgain(t *testing.T) {
	for name, end := range map[string]func(b *bubble){
		"until it is not idle": func(b *bubble) {
			b.reader.idle.Store(false)
			time.Sleep(inbox.MaxRetryPause)
		},
		"until a call waits": func(b *bubble) { b.all.ReconnectNow(b.box) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.reader.idle.Store(true)
				b.lose()
				b.tries()
				time.Sleep(time.Hour)
				if tries := b.tries(); len(tries) != 1 || tries[0] != inbox.MinRetryPause {
					b.Errorf("there are tries at %v, want one after %v", tries, inbox.MinRetryPause)
				}
				b.wire.Restore()
				time.Sleep(time.Hour)
				if b.box.IsLive() {
					b.Error("it is subscribed to though no message can matter")
				}
				end(b)
				synctest.Wait()
				if !b.box.IsLive() || len(b.tries()) != 1 {
					b.Error("it is not subscribed to though messages matter again")
				}
			})
		})
	}
}
