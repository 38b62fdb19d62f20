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

// A reload makes the client of a Cluster ask which node has which slots. go-redis does so by itself once a minute, and when a
// node answers that a slot is elsewhere. But a dead node answers nothing, and its replica has its slots within seconds. go-redis
// asks a random node. If that is the dead one, the question waits for the read timeout, and all later questions behind it
// (ClusterClient.ReloadState). So the questions here do not wait for each other.
type reload struct {
	s *Sender

	mu      sync.Mutex
	asks    bool      // questions are being sent
	until   time.Time // when they may stop
	once    bool      // send at least one more
	waiting int       // questions without an answer
	asked   int       // questions sent so far

	handling sync.Mutex // held while an answer is handled
	handled  int        // the latest question whose answer was used
}

const (
	// reloadInterval separates two questions.
	reloadInterval = 200 * time.Millisecond
	// reloadTime is how long questions continue after a node was unreachable: its replica needs time to take its place.
	reloadTime = 5 * time.Second
	// maxReloads bounds the questions in flight to nodes that do not answer.
	maxReloads = 8
)

// after asks if err, which may be nil, shows that a node is unreachable or has lost contact with the others. It does not wait for
// the answer.
func (r *reload) after(err error) {
	if err == nil || errors.Is(err, context.Canceled) || IsReply(err) && !redis.HasErrorPrefix(err, "CLUSTERDOWN") {
		return
	}
	r.ask(reloadTime)
}

// ask asks now, or soon if it has just asked, and then repeats that for the given time. It does not wait for answers.
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

// question sends the nth question and handles its answer.
func (r *reload) question(n int) {
	var mu sync.Mutex
	masters := make(map[*redis.Client]bool)
	err := r.s.cluster.ForEachMaster(r.s.ctx, func(_ context.Context, c *redis.Client) error { // go-redis asks for the masters first
		mu.Lock()
		defer mu.Unlock()
		masters[c] = true
		return nil
	})
	r.mu.Lock()
	r.waiting--
	r.mu.Unlock()
	if err == nil && len(masters) > 0 { // a node that was reset, or has just joined, has no masters to report
		r.onAnswer(n, masters)
	}
}

// onAnswer handles the answer to the nth question, unless a later question was answered before: a node that hung may not have
// noticed that another one has taken its place. go-redis has used that old answer, so it must ask again.
func (r *reload) onAnswer(n int, masters map[*redis.Client]bool) {
	r.handling.Lock()
	defer r.handling.Unlock()
	if n < r.handled {
		r.ask(0)
		return
	}
	r.handled = n
	r.s.onMasters(masters)
}

// go-redis waits for the answer of a node until its read timeout, which is 5 s by default, and then asks the same node again,
// whichever node has its slots by then. So calls left unanswered by a demoted master are sent again here, to its successor. The
// first answer counts. A second one may arrive much later, when the server no longer has the id's done mark and may grant it
// something: the call receives that answer as Late.

// An openCall is an unanswered call to a node of a Cluster. Once it is in the list, the mutex of the Sender guards it.
type openCall struct {
	list.Links[*openCall]

	call   *Call
	node   *redis.Client
	since  time.Time // when it was passed to the Sender
	args   []any     // the original arguments of the call
	first  *openCall // the call that this is a copy of; nil: none
	copied bool
	listed bool
	over   bool // it or a copy of it was answered
}

// lateAnswer is how long an answer may take before the Cluster is asked for its masters, again and again until there is an
// answer.
const lateAnswer = time.Second

// noteOpen records that k is to be sent. The mutex is locked.
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

// checkOpen checks whether an answer is late, and schedules the next check.
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
		s.NoteLateAnswer()
	}
}

// answer delivers an answer.
func (s *Sender) answer(k *Call, reply *Reply) {
	switch {
	case k.open == nil || s.isFirst(k.open):
		k.done(reply)
	case k.Late != nil:
		k.Late(reply)
	}
}

// isFirst records an answer, and reports whether it is the first.
func (s *Sender) isFirst(o *openCall) bool {
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

func (s *Sender) unlist(o *openCall) {
	if o.listed {
		o.listed = false
		s.open.Remove(o)
	}
}

// unanswered returns the calls of a batch that have no answer, and whose originals have none.
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

// onMasters handles the present set of a Cluster's masters.
func (s *Sender) onMasters(masters map[*redis.Client]bool) {
	s.resend(masters)
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

// resend sends calls again if their nodes are not among the masters. Calls that have not yet gone out change their queue.
func (s *Sender) resend(masters map[*redis.Client]bool) {
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

// copy returns a copy of a call that has no answer. The original may still arrive, so the copy counts as sent once more.
func (o *openCall) copy() *Call {
	k := o.call
	if k.Copies != nil {
		k.Copies.Add(1)
	}
	return &Call{
		Limit: k.Limit, Late: k.Late, Copies: k.Copies, ctx: k.ctx, script: k.script, args: o.args, done: k.done,
		open: &openCall{first: cmp.Or(o.first, o)},
	}
}
