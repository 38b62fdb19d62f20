package consume

import (
	"context"
	"errors"
	"sync"

	"github.com/lockmw/go/internal/keyed"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/middleware"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// A Partition receives messages that arrive and end together. Its methods are safe for concurrent use, but only messages that are
// submitted one after the other have an order.
type Partition[M any] struct {
	queue   *Queue[M]
	done    func(M)
	inOrder bool
	room    chan struct{} // has a value for each message of the list

	// Close ends open under mu, so that nothing is started any more. The end of its context ends handlers.
	open, handlers       context.Context
	endOpen, endHandlers context.CancelCauseFunc
	running              sync.WaitGroup

	reporting chan struct{} // a value is in it during the calls of done, if they are in order
	mu        sync.Mutex
	accepted  int                      // messages
	gapsUntil int                      // messages up to this number may begin after Close
	messages  list.List[*message[M]]   // not done, or not yet reported, as submitted
	lines     map[string][]*message[M] // the messages of each key; a goroutine works on each line
}

type message[M any] struct {
	list.Links[*message[M]]
	content M
	ctx     context.Context // of Submit
	key     string          // "": no lock
	invalid error           // why there is no key
	number  int             // from 1, as submitted
	begun   bool            // its handler runs, or has succeeded
	done    bool
}

func (q *Queue[M]) open(done func(M), inOrder bool) *Partition[M] {
	option.NotNil(done, "consume: Open: done is nil")
	p := &Partition[M]{queue: q, done: done, inOrder: inOrder, lines: make(map[string][]*message[M])}
	p.room, p.reporting = make(chan struct{}, q.limit), make(chan struct{}, 1)
	p.open, p.endOpen = context.WithCancelCause(context.Background())
	p.handlers, p.endHandlers = context.WithCancelCause(context.Background())
	return p
}

// Submit accepts the next message. It waits while the Partition has WithLimit messages that are not done. It returns ErrClosed after
// Close, and the cause of ctx if that ends first; the message was not accepted then. Values of ctx reach the handler, such as a trace.
// The end of ctx does not.
//
// A consumer that must ask its broker for messages now and then, or be expelled, calls Submit from another goroutine and pauses the
// partition meanwhile: see [docs/consumers.md].
//
// [docs/consumers.md]: https://github.com/lockmw/go/blob/main/docs/consumers.md#kafka
func (p *Partition[M]) Submit(ctx context.Context, m M) error {
	next := &message[M]{content: m, ctx: lockmw.WithoutHolds(context.WithoutCancel(ctx))}
	next.key, next.invalid = p.queue.keyOf(ctx, m)
	select {
	case p.room <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.open.Done():
		return ErrClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open.Err() != nil {
		return ErrClosed
	}
	p.accepted++
	next.number = p.accepted
	p.messages.Push(next)
	p.begin(next)
	return nil
}

// keyOf returns no key for a message that needs no lock.
func (q *Queue[M]) keyOf(ctx context.Context, m M) (key string, err error) {
	err = protect(func() (err error) {
		key, err = q.key(ctx, m)
		return err
	})
	switch {
	case errors.Is(err, lockmw.ErrNoLock):
		return "", nil
	case err == nil:
		err = keyed.Check(key)
	}
	if err := middleware.CheckKey("message", key, err); err != nil {
		return "", err
	}
	return key, nil
}

// begin queues a message behind the others of its key. The caller holds p.mu.
func (p *Partition[M]) begin(m *message[M]) {
	if m.key == "" {
		p.running.Go(func() { p.settle(m) })
		return
	}
	p.lines[m.key] = append(p.lines[m.key], m)
	if len(p.lines[m.key]) == 1 {
		p.running.Go(func() { p.work(m) })
	}
}

// work settles the messages of a key, beginning with the first, until there is none or the Partition is closed.
func (p *Partition[M]) work(m *message[M]) {
	for more := true; more && p.settle(m); {
		m, more = p.following(m.key)
	}
}

// following removes the first message of a key, and returns the next one.
func (p *Partition[M]) following(key string) (m *message[M], more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := p.lines[key][1:]
	if len(line) == 0 {
		delete(p.lines, key)
		return nil, false
	}
	p.lines[key] = line
	return line[0], true
}

// report removes a message that is done, and calls done for those whose turn it is.
func (p *Partition[M]) report(m *message[M]) {
	if p.inOrder {
		p.reporting <- struct{}{}
		defer func() { <-p.reporting }()
	} else {
		p.done(m.content)
	}
	for _, first := range p.finished(m) {
		if p.inOrder {
			p.done(first.content)
		}
		<-p.room
	}
}

// finished marks a message as done and removes those that can be reported, which it returns.
func (p *Partition[M]) finished(m *message[M]) (list []*message[M]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.done = true
	if !p.inOrder {
		p.messages.Remove(m)
		return append(list, m)
	}
	for first := p.messages.First(); first != nil && first.done; first = p.messages.First() {
		p.messages.Remove(first)
		list = append(list, first)
	}
	return list
}

// Close ends the Partition: at a rebalance, and when the consumer stops. It starts no further message, and ends the waits for locks and
// the pauses before further attempts. It waits for the handlers that run. When ctx ends, so do their contexts, and Close waits until
// they have returned, which releases their locks. So give ctx less time than the broker gives you, and let handlers end with their
// context. To end them immediately, pass a context that has ended.
//
// In a Partition of OpenInOrder, messages before one that was begun already still begin until ctx ends: otherwise that one, which is
// done but cannot be committed, would be handled again.
//
// Close returns the messages that are not done, as submitted. A message whose handler returned nil is done, even if its context had
// ended. One whose handler failed meanwhile is not, and GiveUp is not asked. In a Partition of OpenInOrder, some messages behind the
// first that is not done may have been handled; they are not returned, although done was not called for them. After Close, done is not
// called any more. A second Close waits as the first does, and returns the same.
func (p *Partition[M]) Close(ctx context.Context) (notDone []M) {
	p.refuse()
	stop := context.AfterFunc(ctx, func() { p.endHandlers(context.Cause(ctx)) })
	p.running.Wait()
	stop()
	p.endHandlers(ErrClosed)
	p.mu.Lock()
	defer p.mu.Unlock()
	for m := range p.messages.All() {
		if !m.done {
			notDone = append(notDone, m.content)
		}
	}
	return notDone
}

// refuse lets no message begin, except in the gaps of a Partition in order.
func (p *Partition[M]) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open.Err() != nil {
		return
	}
	p.endOpen(ErrClosed)
	for m := range p.messages.All() {
		if p.inOrder && (m.begun || m.done) {
			p.gapsUntil = m.number
		}
	}
}

// mayBegin reports whether a message may begin, or has begun.
func (p *Partition[M]) mayBegin(m *message[M]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return m.begun || p.admits(m)
}

// begins notes that the handler of a message runs from now on, if it may.
func (p *Partition[M]) begins(m *message[M]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.begun = p.admits(m)
	return m.begun
}

// admits reports whether a message may begin now. The caller holds p.mu.
func (p *Partition[M]) admits(m *message[M]) bool {
	return p.open.Err() == nil || m.number <= p.gapsUntil && p.handlers.Err() == nil
}

// fails notes that the handler of a message has returned, and has to run again.
func (p *Partition[M]) fails(m *message[M]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.begun = false
}
