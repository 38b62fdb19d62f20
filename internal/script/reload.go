package script

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A reload has the client of a Cluster ask which node has which slots. go-redis does so by itself once a minute, and when
// a node says that a slot is elsewhere. A node that is dead says nothing, and its replica has its slots within seconds.
type reload struct {
	cluster Cluster // nil: there is nothing to ask
	epoch   time.Time
	next    atomic.Int64 // since epoch: not before that
}

// reloadInterval is how often the nodes are asked at most. go-redis has a longer interval of its own, and asks once more
// after it if it was told to meanwhile.
const reloadInterval = 50 * time.Millisecond

func newReload(rdb redis.UniversalClient) *reload {
	return &reload{epoch: time.Now(), cluster: ClusterOf(rdb)}
}

// after asks if a command failed with err, which may be nil, because its node is away, or has lost sight of the others. It
// does not wait for the answer.
func (r *reload) after(err error) {
	if r.cluster == nil || err == nil || errors.Is(err, context.Canceled) {
		return
	}
	if IsReply(err) && !redis.HasErrorPrefix(err, "CLUSTERDOWN") {
		return
	}
	r.now()
}

// now asks, unless it has just asked. It does not wait for the answer.
func (r *reload) now() {
	if r.cluster == nil {
		return
	}
	now := int64(time.Since(r.epoch))
	next := r.next.Load()
	if now >= next && r.next.CompareAndSwap(next, now+int64(reloadInterval)) {
		r.cluster.ReloadState(context.Background())
	}
}
