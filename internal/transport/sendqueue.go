package transport

import (
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A sendQueue has the calls to one server, or to several that are not told apart.
type sendQueue struct {
	limit   int         // how many may be in flight
	patient *directConn // for callers that wait for the answer in any case; nil: the client has no limits to set
	hurried *directConn // for callers that must notice soon that their time has ended
	quick   atomic.Bool // the server has answered well within the limit of hurried callers
	waits   *sendQueue  // for calls that wait for replicas, which must not delay the others

	// The mutex of the Sender guards the fields below.
	flying  int // commands and pipelines in flight
	waiting []*Call
}

// These limit the commands and pipelines in flight on behalf of callers. They are large enough that a server has work while
// answers are handled, and small enough that pipelines fill up when there is much to do.
const (
	maxInFlight  = 5
	maxAtOneNode = 3 // of a Cluster or of independent servers, because others are in flight to the other nodes
	// noLimit is for servers that are not told apart: a slow one must not delay the calls to others.
	noLimit = 1 << 20
)

// A direct connection takes at most 2 * hurriedTurn + hurriedAnswer for hurried callers. That must be less than the 50 ms by
// which a call may outlast its context.
const (
	hurriedTurn   = 5 * time.Millisecond
	hurriedAnswer = 30 * time.Millisecond
	quickAnswer   = 5 * time.Millisecond
)

// newSendQueue returns a queue for the server of rdb, which is the user's client or the client of a node of the user's Cluster.
func (s *Sender) newSendQueue(rdb *redis.Client, limit int) *sendQueue {
	return &sendQueue{
		limit:   limit,
		patient: newDirectConn(s, rdb, s.patience/4, s.patience),
		hurried: newDirectConn(s, rdb, hurriedTurn, hurriedAnswer),
		waits:   &sendQueue{limit: limit},
	}
}

// SetMultiNode lowers the limit because calls to other servers are in flight at the same time.
func (s *Sender) SetMultiNode() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.common.limit == maxInFlight {
		s.common.limit, s.common.waits.limit = maxAtOneNode, maxAtOneNode
	}
}

// queueOf returns the queue of k. It never waits: until a Cluster has answered, its client has to find the nodes.
func (s *Sender) queueOf(k *Call) *sendQueue {
	r := s.queueTo(k)
	if s.wantsReplicas(k) {
		return r.waits
	}
	return r
}

// queueTo returns the queue for the server of k. If that is a node of a Cluster, k may be sent again: see cluster.go.
func (s *Sender) queueTo(k *Call) *sendQueue {
	if !s.clusterAnswered.Load() {
		return s.common
	}
	node := s.NodeFor(s.ctx, k.key())
	if node == nil {
		return s.common
	}
	var first *openCall
	if k.open != nil { // k is a copy, or has changed its queue
		first = k.open.first
	}
	k.open = &openCall{call: k, node: node, args: k.args, first: first}
	if _, ok := s.rdb.(*redis.ClusterClient); !ok {
		return s.common // wrapped by a type of the user
	}
	if r, ok := s.nodes.Load(node); ok {
		return r.(*sendQueue)
	}
	r, _ := s.nodes.LoadOrStore(node, s.newSendQueue(node, maxAtOneNode))
	return r.(*sendQueue)
}
