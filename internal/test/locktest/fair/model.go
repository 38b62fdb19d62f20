package fair

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

var modelled = withTickets([]env.Scenario{
	env.Case("random operations match a simple model of the queue", randomQueue, env.Fair|env.Shares),
})

func randomQueue(e *env.Env) {
	e.Compare(func(t *rapid.T, clients []*env.Client) env.Model { return newFairModel(e, t, clients) })
}

// A model is a simple fair lock: an optional holder, a list of waiters, and kept places.
type model struct {
	line
	clients []*env.Client
	holder  *call // nil: free
	queue   []*call
	away    map[string]*place // by ticket
	last    int               // the highest place so far
}

// A call is a call in the queue, or the hold that it received.
type call struct {
	*standing
	client *env.Client
	place  int
	ticket string // "": no kept place
	keep   time.Duration
	until  time.Time // end of its wait limit; zero: no limit
	ctx    context.Context
	held   *recording.Held
}

// A place is kept while its owner is away.
type place struct {
	place int
	until time.Time
}

func newFairModel(e *env.Env, t *rapid.T, clients []*env.Client) *model {
	return &model{line: line{e: e.Round(t), key: e.Key("item")}, clients: clients, away: make(map[string]*place)}
}

// Actions implements env.Model.
func (m *model) Actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":        m.check,
		"arrive":  m.arrive,
		"arrive2": m.arrive, // twice as likely as the others
		"try":     m.try,
		"cancel":  m.cancel,
		"unlock":  m.unlock,
		"reenter": m.reenter,
	}
}

// End implements env.Model.
func (m *model) End() {
	for _, c := range m.queue {
		c.standing.Cancel()
		if <-c.standing.Done; c.standing.Err == nil {
			_ = c.standing.Held.Unlock()
		}
	}
	if m.holder != nil {
		_ = m.holder.held.Unlock()
	}
	for _, ticket := range tickets {
		_, held, err := m.e.Rec.Lock(m.e.Ctx, m.clients[0], m.key, lockmw.WithPlace(ticket, longKept), lockmw.WithWait(m.e.Ample(m.e.Soon)))
		if err != nil {
			m.e.T.Errorf("taking the lock at the end: %v", err)
			continue
		}
		_ = held.Unlock() // ends the kept place
	}
	for _, v := range m.e.Rec.Violations() {
		m.e.T.Error(v)
	}
}

var tickets = []string{"one", "two", "three"}

// call draws a call and determines its place.
func (m *model) call(t *rapid.T) (*call, []lockmw.Option) {
	c := &call{client: env.Draw(t, "client", m.clients)}
	var opts []lockmw.Option
	if ticket := rapid.SampledFrom(append(tickets, "", "")).Draw(t, "ticket"); !m.present(ticket) {
		c.ticket, c.keep = ticket, longKept
		if m.e.Config.Bubble { // in real time the end of the kept place is inexact
			c.keep = time.Duration(rapid.IntRange(1, 8).Draw(t, "keep"))*time.Second + 50*time.Millisecond
		}
		if ticket != "" {
			opts = append(opts, lockmw.WithPlace(ticket, c.keep))
		}
	}
	if p := m.away[c.ticket]; p != nil {
		c.place = p.place
	} else {
		m.last++
		c.place = m.last
	}
	return c, opts
}

// present reports whether a call with the ticket waits or holds the lock. The order of two calls with the same ticket is
// undefined.
func (m *model) present(ticket string) bool {
	return m.holder != nil && m.holder.ticket == ticket ||
		slices.ContainsFunc(m.queue, func(c *call) bool { return c.ticket == ticket })
}

func (m *model) arrive(t *rapid.T) {
	if len(m.queue) >= 6 {
		t.Skip("the queue is full")
	}
	c, opts := m.call(t)
	if m.holder == nil {
		m.gets(c, opts)
		return
	}
	if m.e.Config.Bubble && rapid.Bool().Draw(t, "limited") {
		limit := time.Duration(rapid.IntRange(1, 50).Draw(t, "tenths"))*100*time.Millisecond + 20*time.Millisecond
		c.until = time.Now().Add(limit)
		opts = append(opts, lockmw.WithWait(limit))
	}
	at := 0
	for at < len(m.queue) && m.queue[at].place < c.place {
		at++
	}
	m.queue = slices.Insert(m.queue, at, c)
	delete(m.away, c.ticket)
	c.standing = m.joinAt(at, c.client, opts...)
	if want := fmt.Sprintf("%d of %d", at+1, len(m.queue)); c.standing.place() != want {
		t.Errorf("a call was notified of %s; its position is %s", c.standing.place(), want)
	}
}

// gets lets a call take the free lock.
func (m *model) gets(c *call, opts []lockmw.Option) {
	c.ctx, c.held = m.e.Lock(c.client, m.key, append(opts, lockmw.WithWait(0))...)
	m.holder = c
}

func (m *model) try(t *rapid.T) {
	c, opts := m.call(t)
	if m.holder == nil {
		m.gets(c, opts)
		return
	}
	m.line.try(c.client, opts...)
	m.leaves(c, time.Now())
}

func (m *model) cancel(t *rapid.T) {
	if len(m.queue) == 0 {
		t.Skip("no waiters")
	}
	c := env.Draw(t, "waiter", m.queue)
	c.standing.Cancel()
	m.leaves(c, time.Now())
	c.standing.Fails(m.e.Soon, lockmw.ErrBusy, context.Canceled)
}

// leaves removes a call without the lock from the queue and keeps its place.
func (m *model) leaves(c *call, now time.Time) {
	m.queue = slices.DeleteFunc(m.queue, func(other *call) bool { return other == c })
	m.leave(c.standing)
	if c.ticket != "" {
		m.away[c.ticket] = &place{place: c.place, until: now.Add(c.keep)}
	}
}

func (m *model) unlock(t *rapid.T) {
	if m.holder == nil {
		t.Skip("the lock is free")
	}
	m.release()
}

func (m *model) release() {
	m.e.Unlock(m.holder.ctx, m.holder.held)
	delete(m.away, m.holder.ticket)
	m.holder = nil
	if len(m.queue) == 0 {
		return
	}
	next := m.queue[0]
	m.queue = m.queue[1:]
	next.standing.has()
	next.ctx, next.held = next.standing.Ctx, next.standing.Held
	m.leave(next.standing)
	m.holder = next
}

func (m *model) reenter(t *rapid.T) {
	if m.holder == nil {
		t.Skip("the lock is free")
	}
	_, hold, err := m.holder.client.Lock(m.holder.ctx, m.key, lockmw.WithWait(0))
	if err != nil {
		t.Fatalf("re-entry: %v", err)
	}
	if err := hold.Unlock(); err != nil {
		t.Errorf("Unlock of the nested hold: %v", err)
	}
}

// PassTime implements env.Model. Calls may reach their limits and kept places may expire.
func (m *model) PassTime(t *rapid.T) {
	m.e.Pass(time.Duration(rapid.IntRange(1, 40).Draw(t, "tenths")) * 100 * time.Millisecond)
}

// check compares the lock with the model after each operation.
func (m *model) check(*rapid.T) {
	if m.e.Config.Bubble {
		m.e.Pass(time.Millisecond) // so that no two operations happen at the same time
		for !m.expire() {
			m.e.Pass(time.Millisecond)
		}
	}
	m.stands()
	for _, c := range m.queue {
		c.standing.stillWaits()
	}
	if m.holder != nil {
		if err := m.holder.ctx.Err(); err != nil {
			m.e.T.Errorf("the hold has ended: %v", context.Cause(m.holder.ctx))
		}
	}
}

// expire applies expired limits to the model. It returns false if something is about to expire, so that the server may or may
// not have noticed. Served calls of a grant batch stay in the queue for 20 ms more.
func (m *model) expire() bool {
	const near = 30 * time.Millisecond
	settled := true
	for _, c := range slices.Clone(m.queue) {
		if c.until.IsZero() {
			continue
		}
		left := time.Until(c.until)
		if left <= 0 {
			m.leaves(c, c.until)
			c.standing.Fails(m.e.Soon, lockmw.ErrBusy)
		}
		settled = settled && left > near
	}
	for ticket, p := range m.away {
		left := time.Until(p.until)
		if left <= -near {
			delete(m.away, ticket)
		}
		settled = settled && (left <= -near || left > near)
	}
	return settled
}
