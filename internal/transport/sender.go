// Package transport sends scripts to the servers of a Redis client, and reads their answers. It is independent of locks: package
// script defines what a script does, and which executions can share a command.
//
//	k := transport.NewCall(ctx, s, 1, func(r *transport.Reply) { fmt.Println(r.Text(), r.Err) })
//	k.AddKeys("user:42")
//	sender.Start(k)
//
// Every command may arrive twice or late, and an answer may be lost. So a script must be harmless when repeated, and a Call
// counts its copies. Read the files in this order:
//
//	call.go      one execution of a script
//	sender.go    sends calls
//	sendqueue.go limits the calls in flight to a server
//	direct.go    sends a call in its caller's goroutine
//	hooks.go     takes the calls of direct connections through the hooks of the user's client
//	pipeline.go  sends many calls at a time; repeats calls whose server lacks the script or is not trusted
//	pacer.go     sends many calls with deadlines, a few at a time
//	trickle.go   sends many calls that may wait
//	pipelines.go sends calls that are due together and must not wait
//	exec.go      sends commands on few connections
//	once.go      runs scripts that go-redis does not repeat
//	batch.go     turns many plain executions into one
//	replicas.go  waits until replicas have acknowledged a write
//	cluster.go   asks for the masters of a Cluster, and resends calls left unanswered by a demoted one
//	reply.go     reads answers
//	errors.go    classifies the errors of commands
//	unfit.go     explains errors of servers that lack what locks need
//	server.go    kinds of servers
//	trial.go     tries on a scratch key what locks need
//	probe.go     finds out the kind of a server in the background
//	watch.go     notices a server that was replaced or restarted
//	endings.go   counts the releases and cancellations for which Close waits
//	diagnose.go  finds out why a server does not answer
package transport

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
)

// maxBatch is the largest number of calls in a pipeline.
const maxBatch = 128

// A Sender runs scripts. While few calls are in flight to a server, each goes out on its own. Beyond that, calls gather while
// others are in flight, and go out together. So a single call is never delayed, and many calls share round trips (rule 4 of
// docs/protocol.md). Safe for concurrent use.
type Sender struct {
	rdb      redis.UniversalClient
	patience time.Duration // of a patient caller

	common          *sendQueue  // to the server; in a Cluster, through its client, which finds the node
	cluster         Cluster     // nil: not a Cluster
	sharded         bool        // a proxy hides several servers
	nodes           sync.Map    // of a Cluster: a *sendQueue by the *redis.Client of the node
	clusterAnswered atomic.Bool // the Cluster has answered

	batching  atomic.Bool // batch scripts may be used
	gathers   sync.Once
	onGathers func() // called when calls gather for the first time that a batch script could do; may be nil
	replicas  Replicas
	reload    *reload
	observe   func(err error)
	deposed   func()

	ctx    context.Context // ends when all calls are to end
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu         sync.Mutex
	stopped    bool
	emptyNodes map[string]*redis.Client // of a Cluster, by address
	paused     bool
	flying     int                  // in flight
	open       list.List[*openCall] // unanswered calls to a Cluster, the oldest first
	checkTimer *time.Timer          // for the next check of these
	checkSet   bool                 // checkTimer is set
	idle       chan struct{}        // closed when flying becomes 0; nil if no caller waits for that
}

// NewSender returns a Sender. patience is how long a patient caller waits for the first try of its call.
func NewSender(rdb redis.UniversalClient, t Topology, patience time.Duration, replicas Replicas) *Sender {
	s := &Sender{rdb: rdb, patience: patience, replicas: replicas, cluster: ClusterOf(rdb), sharded: t.Sharded}
	s.emptyNodes = make(map[string]*redis.Client)
	s.reload = &reload{s: s}
	s.ctx, s.cancel = context.WithCancel(context.WithValue(context.Background(), senderKey{}, s))
	s.common = &sendQueue{limit: maxInFlight, waits: &sendQueue{limit: maxInFlight}}
	if c, ok := rdb.(*redis.Client); ok {
		s.common = s.newSendQueue(c, maxInFlight)
	}
	if t.HasSlots() {
		s.common.limit, s.common.waits.limit = noLimit, noLimit
	}
	return s
}

// Context returns a context that ends when all calls are to end.
func (s *Sender) Context() context.Context { return s.ctx }

// Observe calls noted with the error of each command that has ended, or nil, and deposed when a node of a Cluster that was used
// is no longer a master. It must be called once, before anything is sent.
func (s *Sender) Observe(noted func(err error), deposed func()) {
	s.observe, s.deposed = noted, deposed
}

// noteGathering records that calls gather, or could.
func (s *Sender) noteGathering() {
	if s.onGathers != nil {
		s.gathers.Do(s.onGathers)
	}
}

// SetBatching sets whether batch scripts may be used, which mix the keys of different locks.
func (s *Sender) SetBatching(on bool) { s.batching.Store(on) }

// CanMultiKey reports whether one script may use the keys of different locks: on one server, or in one slot.
func (s *Sender) CanMultiKey() bool {
	if s.cluster != nil || s.sharded || s.batching.Load() {
		return true
	}
	s.noteGathering()
	return false
}

// MayResend reports whether a call may have more than one answer: see Call.Late.
func (s *Sender) MayResend() bool { return s.cluster != nil }

// Start runs k in a goroutine as soon as there is room for it.
func (s *Sender) Start(k *Call) {
	if r := s.queueOf(k); s.enter(r, k) {
		go s.fly(r, []*Call{k})
	}
}

// Inline runs k in the caller's goroutine if there is room, and reports whether it is done: two switches of goroutines cost more
// than many a round trip. If there is no answer in a short time, or the connection fails, k is started as well, which does no
// harm. A patient caller is one that only the answer can stop.
func (s *Sender) Inline(k *Call, patient bool) (done bool) {
	r := s.queueOf(k)
	l := r.hurried
	if patient {
		l = r.patient
	}
	if !s.enter(r, k) {
		return false
	}
	if l == nil || !patient && !r.quick.Load() {
		go s.fly(r, []*Call{k})
		return false
	}
	cmd := l.run(k)
	err := cmd.Err()
	if didNothing(err) {
		k.didNothing()
	}
	away := err != nil && !IsReply(err)
	if away {
		r.quick.Store(false)
		if patient {
			s.NoteLateAnswer()
		}
	}
	if isMissingScript(err) {
		k.sendWhole() // the next answer would be the same
	}
	// More than one command may be needed: see finish. The client of a Cluster tries another node, or retries.
	if away || isUntrusted(err) || isMissingScript(err) || s.cluster != nil && hasPrefix(err, temporary) {
		go s.fly(r, []*Call{k})
		return false
	}
	s.Note(err)
	s.answer(k, k.reply(cmd.Val(), err))
	if batch := s.next(r); batch != nil {
		go s.fly(r, batch)
	}
	return true
}

// enter reports whether there is room to run k now. If not, k will run when there is.
func (s *Sender) enter(r *sendQueue, k *Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.queue = r
	if s.stopped {
		go s.answer(k, &Reply{Err: core.ErrClosed})
		return false
	}
	s.noteOpen(k)
	if r.flying >= r.limit || s.paused {
		r.waiting = append(r.waiting, k)
		return false
	}
	r.flying++
	s.flying++
	s.wg.Add(1)
	return true
}

// next takes the calls that have gathered. If there are none, it returns nil and ends the flight.
func (s *Sender) next(r *sendQueue) []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(r.waiting), maxBatch)
	if n == 0 || s.paused {
		r.flying--
		s.flying--
		if s.flying == 0 && s.idle != nil {
			close(s.idle)
			s.idle = nil
		}
		s.wg.Done()
		return nil
	}
	batch := r.waiting[:n:n]
	r.waiting = r.waiting[n:]
	return batch
}

// fly runs a batch, and then the calls that have gathered in the meantime.
func (s *Sender) fly(r *sendQueue, batch []*Call) {
	for batch != nil {
		switch batch = s.unanswered(batch); len(batch) {
		case 0:
		case 1:
			s.runAlone(batch)
		default:
			s.RunBatch(s.ctx, batch)
		}
		runtime.Gosched() // callers that have their answers may send something new
		batch = s.next(r)
	}
}

// run sends k on its own.
func (s *Sender) run(k *Call) *redis.Cmd {
	ctx, cancel := s.contextOf(k)
	defer cancel()
	started := clock.Now()
	k.markSent(started)
	var cmd *redis.Cmd
	if s.wantsReplicas(k) {
		cmd = s.runAndWait(ctx, k)
	} else {
		cmd = k.command(ctx)
		var sent redis.Cmder = cmd
		if k.Once {
			sent = noRetryCmd{cmd}
		}
		_ = s.rdb.Process(ctx, sent) // the error is cmd's
	}
	if k.queue != nil {
		k.queue.quick.Store(clock.Since(started) < quickAnswer && (cmd.Err() == nil || IsReply(cmd.Err())))
	}
	return cmd
}

// Note records the outcome of a command.
func (s *Sender) Note(err error) {
	if (err == nil || IsReply(err)) && !s.clusterAnswered.Load() {
		s.clusterAnswered.Store(true)
	}
	if isCrossSlot(err) {
		s.batching.Store(false)
	}
	s.reload.after(err)
	if s.observe != nil {
		s.observe(err)
	}
}

// ReloadSlots makes the client of a Cluster ask soon which node has which slots.
func (s *Sender) ReloadSlots() { s.reload.ask(0) }

// NoteLateAnswer records that an answer is late: its node may be unreachable.
func (s *Sender) NoteLateAnswer() { s.reload.ask(reloadTime) }

// spawn runs f in a goroutine that Stop waits for. It reports false, and does not run f, after Stop.
func (s *Sender) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.wg.Go(f)
	}
	return !s.stopped
}

// Cancel ends all calls.
func (s *Sender) Cancel() { s.cancel() }

// Stop ends all calls, refuses further ones with core.ErrClosed, and returns when the goroutines have ended.
func (s *Sender) Stop() {
	s.mu.Lock()
	s.stopped = true
	if s.checkSet {
		s.checkTimer.Stop()
	}
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	for _, node := range s.emptyNodes { // no more are added
		_ = node.Close()
	}
}

// WaitIdle returns true when nothing is in flight, and false if that takes longer than patience.
func (s *Sender) WaitIdle(patience time.Duration) bool {
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
		return true
	case <-timer.C:
		return false
	}
}

// Pause lets calls to the only server gather until Resume. Tests use it to determine which calls go out together.
func (s *Sender) Pause() {
	s.mu.Lock()
	s.paused = true
	s.mu.Unlock()
}

// Gathered returns the number of calls that wait to be sent.
func (s *Sender) Gathered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.common.waiting) + len(s.common.waits.waiting)
}

// Resume sends the calls that have gathered since Pause, in this goroutine.
func (s *Sender) Resume() {
	s.mu.Lock()
	s.paused = false
	s.mu.Unlock()
	for _, r := range []*sendQueue{s.common, s.common.waits} {
		s.mu.Lock()
		r.flying++
		s.flying++
		s.wg.Add(1)
		s.mu.Unlock()
		s.fly(r, s.next(r))
	}
}

// contextOf returns the context of k, which also ends when all calls are to end.
func (s *Sender) contextOf(k *Call) (context.Context, context.CancelFunc) {
	ctx := k.ctx
	if k.Limit > 0 {
		return context.WithTimeout(s.ctx, k.Limit)
	}
	if ctx.Done() == nil {
		return &callContext{LimitedContext: LimitedContext{s.ctx, ctx}}, func() {}
	}
	if ctx.Value(senderKey{}) == s {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// senderKey is the context key of the Sender that the context ends with.
type senderKey struct{}

// NodeFor returns the node of a Cluster that has a Redis key. It returns nil if there is no Cluster, or its client cannot find
// the node.
func (s *Sender) NodeFor(ctx context.Context, key string) *redis.Client {
	if s.cluster == nil {
		return nil
	}
	node, err := s.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil
	}
	return node
}
