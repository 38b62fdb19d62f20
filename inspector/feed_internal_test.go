package inspector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A viewer may leave after the feed has noticed it and before the read begins. Such a read would wait for the next viewer.
func TestAFeedBeginsNoReadAfterItsLastViewerHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		f := newFeed[int](new(pace), time.Minute, nil)
		f.read = func(_ context.Context, alive func(), _ func(int)) (int, error) {
			reads++
			alive()
			return reads, nil
		}
		leave := f.watch(newViewer())
		synctest.Wait()
		leave()
		synctest.Wait()
		if reads != 1 || f.running {
			t.Fatalf("%d reads, running: %t; want 1 that has ended", reads, f.running)
		}
		f.readOnce()
		if reads != 1 {
			t.Error("a read began without viewers")
		}
	})
}
