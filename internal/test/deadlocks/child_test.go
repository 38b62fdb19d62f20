package deadlocks_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/bridge"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A childSpec configures a child process.
type childSpec struct {
	Addrs   []string
	Cluster bool
	Detect  time.Duration
	Lease   time.Duration
	Bridge  bool // from redsync
}

// A report is the outcome of an order to take a lock.
type report struct {
	Key      string
	Err      string
	Deadlock *lockmw.Deadlock
}

// run takes the ordered locks, nested in one another. It gives all of them back when it fails to get one, or when the ordered
// key is empty.
func (s childSpec) run(orders *json.Decoder, reports *json.Encoder) error {
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: s.Addrs, IsClusterMode: s.Cluster})
	defer rdb.Close()
	client, err := lockmw.New(rdb, lockmw.WithDeadlockDetection(s.Detect), lockmw.WithLease(s.Lease))
	if err != nil {
		return err
	}
	locks := lockmw.Locker(client)
	if s.Bridge {
		locks = bridge.Redsync(client, rdb)
	}
	ctx := context.Background()
	var holds []*lockmw.Hold
	for {
		var key string
		if err := orders.Decode(&key); errors.Is(err, io.EOF) {
			return client.Close()
		} else if err != nil {
			return err
		}
		r := report{Key: key}
		if key != "" {
			inner, hold, err := locks.Lock(ctx, key, lockmw.WithLabel("wants:"+key))
			if err == nil {
				ctx, holds = inner, append(holds, hold)
			} else {
				key, r.Err = "", err.Error()
				if d, ok := lockmw.DeadlockOf(err); ok {
					r.Deadlock = &d
				}
			}
		}
		if key == "" {
			for _, h := range slices.Backward(holds) {
				if err := h.Unlock(); err != nil {
					r.Err += "; " + err.Error()
				}
			}
			ctx, holds = context.Background(), nil
		}
		if err := reports.Encode(r); err != nil {
			return err
		}
	}
}

// A child is a process that takes locks.
type child struct {
	*redistest.Child
	t *testing.T
}

// start starts a child.
func (s childSpec) start(t *testing.T) *child {
	t.Helper()
	return &child{redistest.StartChild(t, s), t}
}

// locks makes the child take a lock that is free, or will be.
func (c *child) locks(key string) {
	c.t.Helper()
	c.Order(key)
	if r := c.report(); r.Err != "" {
		c.t.Fatalf("locking %q: %s", key, r.Err)
	}
}

// report returns the answer to an order.
func (c *child) report() (r report) {
	c.t.Helper()
	raw := usertest.Receive(c.t, "report of a child", c.Reports())
	if err := json.Unmarshal(raw, &r); err != nil {
		c.t.Fatalf("%s: %v", raw, err)
	}
	return r
}
