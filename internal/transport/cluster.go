package transport

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/list"
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

// go-redis waits for the answer of a node until its read timeout, which is 5 s by default, and then asks the same node once
// more, whoever has its slots by then. So what a node has not answered that is no master any more is sent again here, to the
// one that has its place. The first answer counts. Another one may come much later, when the server has forgotten that the
// id is over: who may be granted something by it gets it as Late.

// An open is a call to a node of a Cluster, which is not answered. The mutex of the Sender guards it once it is in the list.
type open struct {
	list.Links[*open]

	call   *Call
	node   *redis.Client
	since  time.Time // when it was to be sent
	args   []any     // of the call, as they were
	first  *open     // of which this is a copy; nil: it is none
	copied bool
	listed bool
	over   bool // there is an answer to it, or to a copy
}

// openAt returns what is known of k when it is sent to a node.
func (k *Call) openAt(node *redis.Client) *open {
	o := &open{call: k, node: node, args: k.args}
	if k.open != nil {
		o.first = k.open.first
	}
	return o
}

// lateAnswer is after how long without an answer it is asked who is master by now, and so on until there is one.
const lateAnswer = time.Second

// noteOpen notes that k is to be sent. The mutex is locked.
func (s *Sender) noteOpen(k *Call) {
	if k.open == nil {
		return
	}
	k.open.listed, k.open.since = true, time.Now()
	s.open.Push(k.open)
	if !s.checkSet {
		s.checkSet = true
		s.checkTimer = time.AfterFunc(lateAnswer, s.checkOpen)
	}
}

// checkOpen looks whether an answer is late, and when to look again.
func (s *Sender) checkOpen() {
	s.mu.Lock()
	oldest := s.open.First()
	s.checkSet = oldest != nil && !s.stopped
	late := s.checkSet && time.Since(oldest.since) >= lateAnswer
	switch {
	case late:
		s.checkTimer.Reset(lateAnswer)
	case s.checkSet:
		s.checkTimer.Reset(time.Until(oldest.since.Add(lateAnswer)))
	}
	s.mu.Unlock()
	if late {
		s.Late()
	}
}

// answer hands an answer over.
func (s *Sender) answer(k *Call, reply *Reply) {
	switch {
	case k.open == nil || s.isFirst(k.open):
		k.done(reply)
	case k.Late != nil:
		k.Late(reply)
	}
}

// isFirst notes that there is an answer, and reports whether it is the first.
func (s *Sender) isFirst(o *open) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlist(o)
	if o.first != nil {
		o = o.first
		s.unlist(o)
	}
	was := o.over
	o.over = true
	return !was
}

func (s *Sender) unlist(o *open) {
	if o.listed {
		o.listed = false
		s.open.Remove(o)
	}
}

// unanswered returns those calls of a batch to which there is no answer, nor to what they are copies of.
func (s *Sender) unanswered(batch []*Call) []*Call {
	if s.cluster == nil {
		return batch
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(batch, func(k *Call) bool {
		return k.open != nil && (k.open.over || k.open.first != nil && k.open.first.over)
	})
}

// onMasters deals with the news which nodes of a Cluster are masters.
func (s *Sender) onMasters(masters map[*redis.Client]bool) {
	s.sendAgain(masters)
	deposed := false
	for node := range s.nodes.Range {
		if !masters[node.(*redis.Client)] {
			s.nodes.Delete(node)
			deposed = true
		}
	}
	if deposed && s.deposed != nil {
		s.deposed()
	}
}

// sendAgain sends calls again whose nodes are not among the masters. Those that have not gone out yet just take another way.
func (s *Sender) sendAgain(masters map[*redis.Client]bool) {
	var send []*Call
	s.mu.Lock()
	for o := range s.open.All() {
		if o.copied || o.node == nil || masters[o.node] {
			continue
		}
		k := o.call
		if i := slices.Index(k.queue.waiting, k); i >= 0 {
			k.queue.waiting = slices.Delete(k.queue.waiting, i, i+1)
			s.unlist(o)
			send = append(send, k)
			continue
		}
		o.copied = true
		send = append(send, o.copy())
	}
	s.mu.Unlock()
	for _, k := range send {
		s.Start(k)
	}
}

// copy returns a call that is sent beside the one that has no answer. As nobody knows when that one arrives, it counts
// as sent once more.
func (o *open) copy() *Call {
	k := o.call
	if k.Copies != nil {
		k.Copies.Add(1)
	}
	return &Call{
		Limit: k.Limit, Late: k.Late, Copies: k.Copies, ctx: k.ctx, script: k.script, args: o.args, done: k.done,
		open: &open{first: cmp.Or(o.first, o)},
	}
}
