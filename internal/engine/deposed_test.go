package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// A deposedCluster has a master that hangs from some time on, and then another one in its place, with all data.
type deposedCluster struct {
	redis.UniversalClient // of the one server that plays both

	old, promoted *redis.Client
	master        atomic.Pointer[redis.Client]
	awake         context.Context // ended: the old one answers
	wake          context.CancelFunc
}

// inDeposedCluster plays with an engine on such a Cluster, whose old master hangs.
func inDeposedCluster(t *testing.T, test func(b *bubble, c *deposedCluster)) {
	inBubble(t, func(b *bubble) {
		c := &deposedCluster{UniversalClient: b.rdb, old: b.s.NewClient(b.T), promoted: b.s.NewClient(b.T)}
		c.awake, c.wake = context.WithCancel(b.Context())
		defer c.wake()
		c.master.Store(c.old)
		e, err := New(c, DefaultConfig())
		if err != nil {
			b.Fatal(err)
		}
		e.probe.Disable()
		e.sender.Note(nil) // the Cluster is in sight
		b.e = e
		b.Cleanup(func() { _ = e.Close() })
		test(b, c)
	})
}

func (c *deposedCluster) MasterForKey(context.Context, string) (*redis.Client, error) {
	return c.master.Load(), nil
}

func (c *deposedCluster) ForEachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	return f(ctx, c.master.Load())
}

// Process implements redis.UniversalClient. A command that hangs at the old master is run by the new one in the end, because
// go-redis repeats it there.
func (c *deposedCluster) Process(ctx context.Context, cmd redis.Cmder) error {
	if c.master.Load() == c.old {
		<-c.awake.Done()
	}
	return c.UniversalClient.Process(ctx, cmd)
}

// depose has the other node take the old one's place, which is known soon.
func (c *deposedCluster) depose(e *Engine) {
	c.master.Store(c.promoted)
	e.sender.ReloadSlots()
	time.Sleep(time.Second)
	synctest.Wait()
}

// The first answer counts. When the second one arrives, the id's done mark may have expired.
func TestAGrantByASecondAnswerIsGivenBack(t *testing.T) {
	inDeposedCluster(t, func(b *bubble, c *deposedCluster) {
		call := b.call(b.e, b.requester(core.Exclusive))
		b.wantWaiting("the call", call)
		c.depose(b.e)
		b.release(b.wantGranted("the call", call))
		time.Sleep(2 * script.DoneTTL)
		c.wake()
		synctest.Wait()
		b.wantFree()
	})
}

func TestASecondAnswerDoesNoHarmToAHold(t *testing.T) {
	inDeposedCluster(t, func(b *bubble, c *deposedCluster) {
		call := b.call(b.e, b.requester(core.Exclusive))
		c.depose(b.e)
		h := b.wantGranted("the call", call)
		c.wake()
		synctest.Wait()
		b.release(h) // it still has the lock
		b.wantFree()
	})
}

func TestAMultiAcquireGrantedByASecondAnswerIsGivenBack(t *testing.T) {
	inDeposedCluster(t, func(b *bubble, c *deposedCluster) {
		var holds []core.Hold
		done := make(chan struct{})
		go func() {
			defer close(done)
			holds, _ = b.e.AcquireAll(b.Context(), []*core.Request{&b.requester(core.Exclusive).Request})
		}()
		synctest.Wait()
		c.depose(b.e)
		<-done
		if len(holds) != 1 {
			b.Fatalf("%d holds, want one", len(holds))
		}
		b.e.ReleaseAll(holds, soon)
		time.Sleep(2 * script.DoneTTL)
		c.wake()
		synctest.Wait()
		b.wantFree()
	})
}
