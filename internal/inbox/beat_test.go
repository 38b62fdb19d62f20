package inbox_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/inbox"
)

// wantBeats checks the beats for an inbox since the last check, in seconds since a time.
func (b *bubble) wantBeats(box *inbox.Inbox, since time.Time, want ...int) {
	b.Helper()
	synctest.Wait()
	b.reader.mu.Lock()
	defer b.reader.mu.Unlock()
	got := b.reader.beats[box.Name]
	delete(b.reader.beats, box.Name)
	if len(got) != len(want) {
		b.Fatalf("%s has %d beats, want them after %v s: %v", box.Name, len(got), want, got)
	}
	for i, s := range want {
		// One may be early, to go out together with others.
		if at, due := got[i].Sub(since), time.Duration(s)*time.Second; at > due || at < due*9/10 {
			b.Errorf("%s: beat %d is after %v, want %v", box.Name, i, at, due)
		}
	}
}

func TestAProcessBeatsOnceASecondWhileCallsWait(t *testing.T) {
	inBubble(t, func(b *bubble) {
		time.Sleep(time.Minute)
		b.wantBeats(b.box, time.Now())
		start := time.Now()
		b.all.AddWaits(b.box, 1)
		time.Sleep(1500 * time.Millisecond)
		b.all.AddWaits(b.box, 2) // more calls, which beat no more often
		time.Sleep(time.Second)
		b.all.AddWaits(b.box, -2)
		time.Sleep(time.Second)
		b.wantBeats(b.box, start, 1, 2, 3)
		b.all.AddWaits(b.box, -1)
		time.Sleep(time.Minute)
		b.wantBeats(b.box, start)
	})
}

// A call that begins to wait has just been queued, which shows that the process is alive: the first beat is a second later.
func TestBeatsBeginAnewWithTheNextWait(t *testing.T) {
	inBubble(t, func(b *bubble) {
		for range 3 {
			start := time.Now()
			b.all.AddWaits(b.box, 1)
			time.Sleep(2500 * time.Millisecond)
			b.all.AddWaits(b.box, -1)
			time.Sleep(time.Minute + 123*time.Millisecond)
			b.wantBeats(b.box, start, 1, 2)
		}
	})
}

// Short waits in quick succession add no beats.
func TestBeatsContinueWhenTheNextWaitBeginsBeforeTheyEnd(t *testing.T) {
	inBubble(t, func(b *bubble) {
		start := time.Now()
		for range 35 {
			b.all.AddWaits(b.box, 1)
			time.Sleep(90 * time.Millisecond)
			b.all.AddWaits(b.box, -1)
			time.Sleep(time.Millisecond)
			b.all.AddWaits(b.box, 1)
			time.Sleep(9 * time.Millisecond)
			b.all.AddWaits(b.box, -1)
			b.all.AddWaits(b.box, 1)
			b.all.AddWaits(b.box, -1)
		}
		b.all.AddWaits(b.box, 1)
		time.Sleep(time.Second)
		synctest.Wait()
		b.reader.mu.Lock()
		defer b.reader.mu.Unlock()
		if n := len(b.reader.beats["inbox"]); n > 4 {
			b.Errorf("%d beats within %v", n, time.Since(start))
		}
	})
}

func TestEachInboxHasItsBeats(t *testing.T) {
	inBubble(t, func(b *bubble) {
		start, second := time.Now(), inbox.New("second")
		b.all.AddWaits(b.box, 1)
		b.all.AddWaits(second, 1)
		time.Sleep(1500 * time.Millisecond)
		b.all.AddWaits(b.box, -1)
		time.Sleep(2 * time.Second)
		b.wantBeats(b.box, start, 1)
		b.wantBeats(second, start, 1, 2, 3)
	})
}

// The server did not know of the process at a beat. If that has waited for long, its tickets may have been taken for dead.
func TestAProcessMayBeForgottenIfItHasWaitedForLong(t *testing.T) {
	inBubble(t, func(b *bubble) {
		time.Sleep(time.Hour)
		began := clock.Now()
		b.all.AddWaits(b.box, 1)
		for after, want := range map[time.Duration]bool{0: false, time.Second: false, 2 * time.Second: false, 2*time.Second + 1: true, time.Minute: true} {
			if got := b.box.TicketsMayBeGone(began.Add(after)); got != want {
				b.Errorf("at a beat %v after the wait began: %t, want %t", after, got, want)
			}
		}
	})
}
