// Package faults has scripts that reproduce the faults of each way reliably. A script stops calls where a machine might be
// slow, kills the process of a holder, or deletes locks from Redis.
package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lockmw/go/examples/stock/internal/memcached"
	"github.com/lockmw/go/examples/stock/internal/shop"
	"github.com/lockmw/go/examples/stock/internal/ways"
)

// A Stage has the actors of a script: two shops that sell in one way, and one item. After the first error its methods do
// nothing.
type Stage struct {
	ctx       context.Context
	env       *ways.Env
	way       ways.Way
	memcached *memcached.Server // may be nil
	client    *http.Client

	shops [2]*shop.Shop // nil for a killed shop
	stock int
	err   error
	facts Facts
	calls []*call

	receipts shop.Receipts
	killed   []int // the processes
}

// The shops.
const (
	here  = 0
	there = 1
)

// patience is the timeout of calls that should succeed, and haste that of calls that should not.
const (
	patience = 30 * time.Second
	haste    = 100 * time.Millisecond
)

// A call is a click of the script.
type call struct {
	user   string
	key    string
	shop   int // where it runs or has stopped
	done   chan struct{}
	answer shop.Answer
	err    error
	ended  bool
}

// An option configures a call.
type option func(*shop.Order)

func stopAt(p ways.Point) option { return func(o *shop.Order) { o.StopAt = p } }
func nested(o *shop.Order)       { o.Nested = true }
func losesReply(o *shop.Order)   { o.LosesReply = true }
func hastily(o *shop.Order)      { o.Patience = haste }

// begin starts a call at a shop. If the call has a point to stop at, begin returns once it has stopped there.
func (s *Stage) begin(at int, user string, options ...option) *call {
	c := &call{user: user, shop: at, done: make(chan struct{})}
	if s.err != nil {
		c.ended = true
		close(c.done)
		return c
	}
	o := shop.Order{Item: s.item(), User: user, Patience: patience}
	c.key = o.Key()
	for _, set := range options {
		set(&o)
	}
	s.calls = append(s.calls, c)
	target := s.shops[at]
	go func() {
		defer close(c.done)
		c.answer, c.err = target.Buy(s.ctx, s.client, o)
	}()
	switch o.StopAt {
	case "":
	case ways.Taken:
		s.end(c) // a worker of either process stops
		s.awaitStop(c, nil)
	default:
		s.awaitStop(c, c.done)
	}
	return c
}

// awaitStop waits until a call has stopped. It fails if the call is answered instead.
func (s *Stage) awaitStop(c *call, answered <-chan struct{}) {
	if s.err != nil {
		return
	}
	var stopped [2]<-chan string
	for i, shop := range s.shops {
		if shop != nil {
			stopped[i] = shop.Stopped()
		}
	}
	var user string
	select {
	case user = <-stopped[here]:
		c.shop = here
	case user = <-stopped[there]:
		c.shop = there
	case <-answered:
		s.fail("%s was answered %q %s, and did not stop", c.user, c.answer.Result, errors.Join(c.err, errors.New(c.answer.Why)))
		return
	case <-s.ctx.Done():
		s.err = s.ctx.Err()
		return
	}
	if user != c.user {
		s.fail("%s has stopped, not %s", user, c.user)
	}
}

func (s *Stage) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// must records an error.
func (s *Stage) must(err error) {
	if s.err == nil {
		s.err = err
	}
}

// bobWaits starts a call that must wait for others, and gives it time to succeed wrongly.
func (s *Stage) bobWaits(at int) *call {
	c := s.begin(at, "bob")
	select {
	case <-c.done:
	case <-time.After(haste):
	}
	return c
}

// goOn resumes stopped calls in turn, each until it ends.
func (s *Stage) goOn(calls ...*call) {
	for _, c := range calls {
		s.release(c)
		s.end(c)
	}
}

// release resumes a stopped call.
func (s *Stage) release(c *call) {
	if s.err == nil {
		s.must(s.shops[c.shop].GoOn(c.user))
	}
}

// end waits for the answer of a call, and counts it.
func (s *Stage) end(c *call) {
	if s.err != nil || c.ended {
		return
	}
	<-c.done
	c.ended = true
	if c.err != nil {
		s.must(c.err)
		return
	}
	s.facts.Retries += c.answer.Retries
	if s.receipts.Contradicts(c.key, c.answer) {
		s.facts.Contradicting++
	}
	switch c.answer.Result {
	case shop.Sold:
		s.facts.Accepted++
	case shop.Busy:
		s.facts.Blocked++
	case shop.Lost:
		s.facts.ToldOfLoss++
	case shop.Unknown:
		s.facts.Unknown++
	case shop.NotKept:
		s.facts.NotKept++
	case shop.Failed:
		s.fail("%s: %s", c.user, c.answer.Why)
	}
}

// click makes a call and waits for its answer.
func (s *Stage) click(at int, user string, options ...option) {
	s.end(s.begin(at, user, options...))
}

// kill kills the process in which a call has stopped. The call gets no answer.
func (s *Stage) kill(c *call) {
	if s.err != nil {
		return
	}
	s.killed = append(s.killed, s.shops[c.shop].PID())
	s.shops[c.shop].Kill()
	s.shops[c.shop] = nil
	<-c.done
	c.ended = true
}

// reopen starts a new shop in place of a killed one.
func (s *Stage) reopen(at int) {
	if s.err == nil {
		var err error
		s.shops[at], err = s.newShop(at)
		s.must(err)
	}
}

// pause suspends the process of a shop, and resume continues it.
func (s *Stage) pause(at int) {
	if s.err == nil {
		s.must(s.shops[at].Pause(s.ctx))
	}
}

func (s *Stage) resume(at int) {
	if s.err == nil {
		s.must(s.shops[at].Resume())
	}
}

// loseLocks deletes all locks from Redis.
func (s *Stage) loseLocks() {
	if s.err == nil {
		s.must(ways.LoseLocks(s.ctx, s.env))
	}
}
