package transport

import (
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A route is the way to one server, or to several that are not told apart.
type sendQueue struct {
	limit   int         // how many are under way at once
	patient *directConn // for callers that nothing but the answer can stop; nil: the client has no limits to set
	hurried *directConn // for those that must notice soon that their time is over
	quick   atomic.Bool // the server has answered well within the time that hurried callers have
	waits   *sendQueue  // the same way for calls that wait for replicas, which must not hold up the others

	// The mutex of the Sender guards these.
	flying  int // how many commands and pipelines are under way
	waiting []*Call
}

// How many commands or pipelines are under way at once on behalf of callers: enough that a server has something to do
// while answers are dealt with, and few enough that pipelines are full when there is much to do.
const (
	maxInFlight  = 5
	maxAtOneNode = 3 // of a Cluster, or of independent servers, as others are under way to the other nodes
	// noLimit is for servers that are not told apart: one that is slow must not hold up the calls to others.
	noLimit = 1 << 20
)

// Hurried callers get through a lane in at most 2 * hurriedTurn + hurriedAnswer, which must be less
// than the 50 ms by which a call may outlast its context.
const (
	hurriedTurn   = 5 * time.Millisecond
	hurriedAnswer = 30 * time.Millisecond
	quickAnswer   = 5 * time.Millisecond
)

// newSendQueue returns a route to the server of rdb, which is the user's client or that of a node of his Cluster.
func (s *Sender) newSendQueue(rdb *redis.Client, limit int) *sendQueue {
	return &sendQueue{
		limit:   limit,
		patient: newDirectConn(s, rdb, s.patience/4, s.patience),
		hurried: newDirectConn(s, rdb, hurriedTurn, hurriedAnswer),
		waits:   &sendQueue{limit: limit},
	}
}

// BeOneOfSeveral says that there are other servers to which calls are under way at the same time.
func (s *Sender) BeOneOfSeveral() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.common.limit == maxInFlight {
		s.common.limit, s.common.waits.limit = maxAtOneNode, maxAtOneNode
	}
}

// queueOf returns the route of k. It never waits: until a Cluster has answered, its client has to find the nodes.
func (s *Sender) queueOf(k *Call) *sendQueue {
	r := s.queueTo(k)
	if s.wantsReplicas(k) {
		return r.waits
	}
	return r
}

// queueTo returns the route to the server of k. If that is a node of a Cluster, k may be sent again: see cluster.go.
func (s *Sender) queueTo(k *Call) *sendQueue {
	if !s.inSight.Load() {
		return s.common
	}
	node := s.NodeFor(s.ctx, k.key())
	if node == nil {
		return s.common
	}
	k.open = k.openAt(node)
	if _, ok := s.rdb.(*redis.ClusterClient); !ok {
		return s.common // behind a type of the user's
	}
	if r, ok := s.nodes.Load(node); ok {
		return r.(*sendQueue)
	}
	r, _ := s.nodes.LoadOrStore(node, s.newSendQueue(node, maxAtOneNode))
	return r.(*sendQueue)
}
