// Package faults has the scripts that make the flaw of each way happen, every time. A script stops calls where a machine
// might be slow, kills the process of a holder, or lets Redis forget.
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

// A Stage is what a script plays on: two shops that sell in one way, and one item. After the first error its methods do
// nothing.
type Stage struct {
	ctx       context.Context
	env       *ways.Env
	way       ways.Way
	memcached *memcached.Server // nil if there is none
	client    *http.Client

	shops [2]*shop.Shop // nil for one that was killed
	stock int
	err   error
	facts Facts
	calls []*call

	killed []int // the processes
}

// The shops.
const (
	here  = 0
	there = 1
)

// patience is that of calls that are to get what they wait for, and haste that of those that will not.
const (
	patience = 30 * time.Second
	haste    = 100 * time.Millisecond
)

// A call is a click of the script's.
type call struct {
	user   string
	shop   int // where it is, or has stopped
	done   chan struct{}
	answer shop.Answer
	err    error
	ended  bool
}

// An option says how a call is made.
type option func(*shop.Order)

func stopAt(p ways.Point) option { return func(o *shop.Order) { o.StopAt = p } }
func nested(o *shop.Order)       { o.Nested = true }
func losesReply(o *shop.Order)   { o.LosesReply = true }
func hastily(o *shop.Order)      { o.Patience = haste }

// begin makes a call at a shop. If it has a point to stop at, begin returns when it has stopped there.
func (s *Stage) begin(at int, user string, options ...option) *call {
	c := &call{user: user, shop: at, done: make(chan struct{})}
	if s.err != nil {
		c.ended = true
		close(c.done)
		return c
	}
	o := shop.Order{Item: s.item(), User: user, Patience: patience}
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
		s.end(c) // a worker stops, in whichever process
		s.awaitStop(c, nil)
	default:
		s.awaitStop(c, c.done)
	}
	return c
}

// awaitStop waits until a call has stopped. It has not if it was answered before.
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

// must notes an error.
func (s *Stage) must(err error) {
	if s.err == nil {
		s.err = err
	}
}

// bobWaits makes a call that must wait for others, and gives it time to get what it must not get.
func (s *Stage) bobWaits(at int) *call {
	c := s.begin(at, "bob")
	select {
	case <-c.done:
	case <-time.After(haste):
	}
	return c
}

// goOn lets calls go on that have stopped, one after the other, each to its end.
func (s *Stage) goOn(calls ...*call) {
	for _, c := range calls {
		s.release(c)
		s.end(c)
	}
}

// release lets a call go on that has stopped.
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
	switch c.answer.Result {
	case shop.Sold:
		s.facts.Accepted++
	case shop.Busy:
		s.facts.Blocked++
	case shop.Lost:
		s.facts.ToldOfLoss++
	case shop.Failed:
		s.fail("%s: %s", c.user, c.answer.Why)
	}
}

// click makes a call and waits for its answer.
func (s *Stage) click(at int, user string, options ...option) {
	s.end(s.begin(at, user, options...))
}

// kill ends the process in which a call has stopped. The call gets no answer.
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

// reopen starts a shop in the place of one that was killed.
func (s *Stage) reopen(at int) {
	if s.err == nil {
		var err error
		s.shops[at], err = shop.Open(s.ctx, shop.Spec{Place: s.env.Place, Way: s.way.Name})
		s.must(err)
	}
}

// pause stops the process of a shop in its tracks, and resume lets it go on.
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

// loseLocks makes Redis forget all locks.
func (s *Stage) loseLocks() {
	if s.err == nil {
		s.must(ways.LoseLocks(s.ctx, s.env))
	}
}
