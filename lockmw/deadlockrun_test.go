package lockmw_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A lock is passed along a run: the server names its first holder, who has unlocked it, and another one is in the circle.
func TestACircleThroughALockThatWasPassedOn(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		first, other := fairlock.New(process(t, s)), fairlock.New(process(t, s))
		for _, circle := range []bool{true, false} {
			holds := nest(t, other).has("busy")
			passes := nest(t, first).wants("busy")
			second := nest(t, first).has("own")
			has := make(chan struct{})
			go func() {
				defer close(has)
				second.has("busy")
			}()
			synctest.Wait()
			theirs := nest(t, other).has("theirs")
			time.Sleep(time.Millisecond) // tokens are taken from microseconds that have passed
			usertest.Unlock(t, holds.holds)
			if err := <-passes.err; err != nil { // it has passed the lock on
				t.Fatal(err)
			}
			<-has
			if status := inspect(t, s).Holders[0]; status.Token >= second.holds[1].Token() {
				t.Fatalf("the server has token %d, and the lock was passed on with %d", status.Token, second.holds[1].Token())
			}
			second.wants("theirs")
			if circle {
				theirs.wants("busy")
				ends(t, 1, 2*time.Second, second, theirs)
				continue
			}
			time.Sleep(time.Minute)
			theirs.wants("free")
			ends(t, 0, 2*time.Second, second, theirs)
		}
	})
}

// inspect returns what the server says of the lock that is passed on.
func inspect(t *testing.T, s *redistest.Server) lockmw.Status {
	t.Helper()
	inspector := usertest.Inspector(t, s.NewClient(t))
	status, err := inspector.Get(t.Context(), "busy")
	if err != nil || len(status.Holders) != 1 {
		t.Fatalf("%+v, %v", status, err)
	}
	return status
}
