package script

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A reload has the client of a Cluster ask which node has which slots. go-redis does so by itself once a minute, and when
// a node says that a slot is elsewhere. A node that is dead says nothing, and its replica has its slots within seconds.
// go-redis asks a node that it picks at random. If that is the dead one, its question waits until the read timeout, and
// all others behind it (ClusterClient.ReloadState). So questions do not wait for each other here.
type reload struct {
	s *Sender

	mu      sync.Mutex
	asks    bool      // again and again
	until   time.Time // so long at least
	once    bool      // at least once more
	waiting int       // questions without an answer
	asked   int       // questions so far

	heeding sync.Mutex // of one answer at a time
	heeded  int        // the latest question whose answer was heeded
}

const (
	// reloadInterval is how much time is between two questions.
	reloadInterval = 200 * time.Millisecond
	// reloadTime is for how long it is asked after a node was away: its replica needs time to take its place.
	reloadTime = 5 * time.Second
	// maxReloads bounds the questions that wait for nodes that do not answer.
	maxReloads = 8
)

func newReload(s *Sender) *reload { return &reload{s: s} }

// after asks if a command failed with err, which may be nil, because its node is away, or has lost sight of the others. It
// does not wait for the answer.
func (r *reload) after(err error) {
	if r.s.cluster == nil || err == nil || errors.Is(err, context.Canceled) {
		return
	}
	if IsReply(err) && !redis.HasErrorPrefix(err, "CLUSTERDOWN") {
		return
	}
	r.ask(reloadTime)
}

// ask asks now, or soon if it has just asked, and then again for a time. It does not wait for the answers.
func (r *reload) ask(again time.Duration) {
	if r.s.cluster == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if until := time.Now().Add(again); until.After(r.until) {
		r.until = until
	}
	if r.asks {
		r.once = true
		return
	}
	r.asks = r.s.spawn(r.loop)
}

func (r *reload) loop() {
	tick := time.NewTicker(reloadInterval)
	defer tick.Stop()
	for {
		r.begin()
		select {
		case <-tick.C:
		case <-r.s.ctx.Done():
			return
		}
		r.mu.Lock()
		r.asks = r.once || time.Now().Before(r.until)
		r.once = false
		over := !r.asks
		r.mu.Unlock()
		if over {
			return
		}
	}
}

// begin asks once.
func (r *reload) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.asked + 1
	if r.waiting < maxReloads && r.s.spawn(func() { r.question(n) }) {
		r.waiting++
		r.asked++
	}
}

// question asks, as the nth time.
func (r *reload) question(n int) {
	var mu sync.Mutex
	masters := make(map[*redis.Client]bool)
	err := r.s.cluster.ForEachMaster(r.s.ctx, func(_ context.Context, c *redis.Client) error { // it asks before
		mu.Lock()
		defer mu.Unlock()
		masters[c] = true
		return nil
	})
	r.mu.Lock()
	r.waiting--
	r.mu.Unlock()
	if err == nil && len(masters) > 0 { // a node that was reset, or has just joined, knows of none
		r.heed(n, masters)
	}
}

// heed deals with the answer to the nth question, unless a later one was answered before: a node that hung does not know yet
// that another one has its place. go-redis has believed it, and has to ask again.
func (r *reload) heed(n int, masters map[*redis.Client]bool) {
	r.heeding.Lock()
	defer r.heeding.Unlock()
	if n < r.heeded {
		r.ask(0)
		return
	}
	r.heeded = n
	r.s.onMasters(masters)
}
