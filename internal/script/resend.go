package script

import (
	"cmp"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/list"
)

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
	if !s.looks {
		s.looks = true
		s.look = time.AfterFunc(lateAnswer, s.lookAtOpen)
	}
}

// lookAtOpen looks whether an answer is late, and when to look again.
func (s *Sender) lookAtOpen() {
	s.mu.Lock()
	oldest := s.open.First()
	s.looks = oldest != nil && !s.stopped
	late := s.looks && time.Since(oldest.since) >= lateAnswer
	switch {
	case late:
		s.look.Reset(lateAnswer)
	case s.looks:
		s.look.Reset(time.Until(oldest.since.Add(lateAnswer)))
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
		if i := slices.Index(k.route.waiting, k); i >= 0 {
			k.route.waiting = slices.Delete(k.route.waiting, i, i+1)
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
	if k.copies != nil {
		k.copies.Add(1)
	}
	return &Call{
		Limit: k.Limit, Late: k.Late, ctx: k.ctx, script: k.script, args: o.args, done: k.done, copies: k.copies,
		open: &open{first: cmp.Or(o.first, o)},
	}
}
