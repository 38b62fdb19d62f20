package script

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

const (
	// maxInFlight is how many commands or pipelines are under way at once on behalf of callers: enough
	// that the server has something to do while answers are dealt with, and few enough that pipelines
	// are full when there is much to do.
	maxInFlight = 5
	// noLimit is for a Cluster, where one slow node must not hold up the calls to others.
	noLimit  = 1 << 20
	maxBatch = 128 // calls in a pipeline
)

// A Sender runs scripts. As long as few are under way each goes out on its own; beyond that they
// gather while the others are under way, and go out together. So a single call is never held up, and
// many share round trips (rule 4 of docs/protocol.md). Safe for concurrent use.
type Sender struct {
	rdb      redis.UniversalClient
	inFlight int // how many at once

	patient *lane       // for callers that nothing but the answer can stop
	hurried *lane       // for those that must notice soon that their time is over
	quick   atomic.Bool // the server has answered well within the time that hurried callers have

	batching atomic.Bool // batch scripts may be used
	reload   *reload
	watch    func(err error)

	ctx    context.Context // ends when all calls are to end
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	paused  bool
	flying  int // how many are under way
	waiting []*Call
	idle    chan struct{} // closed when flying becomes 0; nil if nobody waits for it
}

// Hurried callers get through a lane in at most 2 * hurriedTurn + hurriedAnswer, which must be less
// than the 50 ms by which a call may outlast its context.
const (
	hurriedTurn   = 5 * time.Millisecond
	hurriedAnswer = 30 * time.Millisecond
	quickAnswer   = 5 * time.Millisecond
)

// NewSender returns a Sender that has sent nothing yet. Patience is how long a patient caller waits
// for the first try of its call.
func NewSender(rdb redis.UniversalClient, t Topology, patience time.Duration) *Sender {
	s := &Sender{rdb: rdb, inFlight: maxInFlight, reload: newReload(rdb)}
	if t.Cluster {
		s.inFlight = noLimit
	}
	s.ctx, s.cancel = context.WithCancel(context.WithValue(context.Background(), senderKey{}, s))
	s.patient = newLane(s, patience/4, patience)
	s.hurried = newLane(s, hurriedTurn, hurriedAnswer)
	return s
}

// Context ends when all calls are to end.
func (s *Sender) Context() context.Context { return s.ctx }

// Watch has f called with the error of each command that has ended, or nil. It is called before anything is sent, once.
func (s *Sender) Watch(f func(err error)) { s.watch = f }

// SetBatching says whether batch scripts may be used, which mix the keys of different locks.
func (s *Sender) SetBatching(on bool) { s.batching.Store(on) }

// Start runs k in a goroutine as soon as there is room for it.
func (s *Sender) Start(k *Call) {
	if s.enter(k) {
		go s.fly([]*Call{k})
	}
}

// Inline runs k in the caller's goroutine if there is room, and reports whether it is done: two
// switches of goroutines cost more than many a round trip. If there is no answer in a short time or
// the connection fails, k is started as well, which does no harm. A patient caller is one that nothing
// but the answer can stop.
func (s *Sender) Inline(k *Call, patient bool) (done bool) {
	l := s.hurried
	if patient {
		l = s.patient
	}
	if l.rdb == nil || !patient && !s.quick.Load() {
		s.Start(k)
		return false
	}
	if !s.enter(k) {
		return false
	}
	cmd := l.run(k)
	if err := cmd.Err(); err != nil && !IsReply(err) {
		s.quick.Store(false)
		go s.fly([]*Call{k})
		return false
	}
	s.finish(k, cmd)
	if batch := s.next(); batch != nil {
		go s.fly(batch)
	}
	return true
}

// enter reports whether there is room to run k now; if not, k will be run when there is.
func (s *Sender) enter(k *Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		go k.done(&Reply{Err: core.ErrClosed})
		return false
	case s.flying >= s.inFlight || s.paused:
		s.waiting = append(s.waiting, k)
		return false
	}
	s.flying++
	s.wg.Add(1)
	return true
}

// next takes what has gathered; nil ends the flight.
func (s *Sender) next() []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.waiting), maxBatch)
	if n == 0 || s.paused {
		s.flying--
		if s.flying == 0 && s.idle != nil {
			close(s.idle)
			s.idle = nil
		}
		s.wg.Done()
		return nil
	}
	batch := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	return batch
}

// fly runs a batch, and then what has gathered meanwhile.
func (s *Sender) fly(batch []*Call) {
	for batch != nil {
		if len(batch) == 1 {
			s.finish(batch[0], s.run(batch[0]))
		} else {
			s.RunBatch(s.ctx, batch)
		}
		runtime.Gosched() // those that have their answers may have something new to send
		batch = s.next()
	}
}

// run sends k on its own.
func (s *Sender) run(k *Call) redis.Cmder {
	ctx, cancel := s.contextOf(k)
	defer cancel()
	started := time.Now()
	k.markSent(started)
	cmd := k.command(ctx)
	_ = s.rdb.Process(ctx, cmd) // the error is cmd's
	s.quick.Store(time.Since(started) < quickAnswer && (cmd.Err() == nil || IsReply(cmd.Err())))
	return cmd
}

// finish hands the answer over; a script that the server does not know yet is sent whole before.
func (s *Sender) finish(k *Call, cmd redis.Cmder) {
	if isMissingScript(cmd.Err()) {
		k.didNothing()
		k.sendWhole()
		cmd = s.run(k)
	}
	if didNothing(cmd.Err()) {
		k.didNothing()
	}
	s.Note(cmd.Err())
	k.done(replyTo(cmd, k.sent))
}

// Note notes how something that was sent to the servers has ended.
func (s *Sender) Note(err error) {
	s.reload.after(err)
	if s.watch != nil {
		s.watch(err)
	}
}

// Cancel ends all calls.
func (s *Sender) Cancel() { s.cancel() }

// Stop ends all calls, refuses further ones with core.ErrClosed, and returns when the goroutines have
// ended.
func (s *Sender) Stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// WaitIdle returns when nothing is under way, or after a while.
func (s *Sender) WaitIdle(patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	s.mu.Lock()
	idle := make(chan struct{})
	if s.flying == 0 {
		close(idle)
	} else {
		s.idle = idle
	}
	s.mu.Unlock()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// Pause lets calls gather until Resume. Tests use it to know what goes out together.
func (s *Sender) Pause() {
	s.mu.Lock()
	s.paused = true
	s.mu.Unlock()
}

// Gathered returns how many calls wait to be sent.
func (s *Sender) Gathered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// Resume sends what has gathered since Pause, in this goroutine.
func (s *Sender) Resume() {
	s.mu.Lock()
	s.paused = false
	s.flying++
	s.wg.Add(1)
	s.mu.Unlock()
	s.fly(s.next())
}

// contextOf returns the context of k, which ends also when all calls are to end.
func (s *Sender) contextOf(k *Call) (context.Context, context.CancelFunc) {
	ctx := k.ctx
	if k.Limit > 0 {
		return context.WithTimeout(s.ctx, k.Limit)
	}
	if ctx.Done() == nil {
		return &callContext{Context: s.ctx, values: ctx}, func() {}
	}
	if ctx.Value(senderKey{}) == s {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// senderKey finds the sender that a context ends with.
type senderKey struct{}

// ByNode divides calls so that no node of a Cluster holds up those to others.
func (s *Sender) ByNode(calls []*Call) [][]*Call {
	cluster := ClusterOf(s.rdb)
	if cluster == nil || len(calls) < 2 {
		return [][]*Call{calls}
	}
	groups := make(map[*redis.Client][]*Call)
	for _, k := range calls {
		node, err := cluster.MasterForKey(s.ctx, k.key())
		if err != nil {
			node = nil // the cluster client will find out again, and say so
		}
		groups[node] = append(groups[node], k)
	}
	list := make([][]*Call, 0, len(groups))
	for _, group := range groups {
		list = append(list, group)
	}
	return list
}
