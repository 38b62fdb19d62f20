package env

import (
	"context"
	"crypto/rand"
	"maps"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// A Server is the one that a scenario's clients use, as the scenario itself sees it.
type Server struct {
	*redistest.Server                       // the first, if they are several
	Admin             redis.UniversalClient // takes no locks
	Prefix            string                // of all keys of the scenario

	all   redistest.Deployment
	nodes []*redis.Client // takes no locks either
	e     *Env
}

// newServer is the shared one, or else one of the scenario's own.
func newServer(t testing.TB, e *Env, shared redistest.Deployment) *Server {
	t.Helper()
	s := &Server{Prefix: "t" + strings.ToLower(rand.Text()[:10]), e: e}
	as := func(*redis.Options) {}
	if s.all = shared; s.all != nil {
		as = asGuest
	} else {
		s.all = e.Config.Server(t)
	}
	s.Admin = s.all.Universal(t, as)
	nodes := s.all.Servers()
	for _, node := range nodes {
		s.nodes = append(s.nodes, node.NewClient(t, as))
	}
	s.Server = nodes[0]
	return s
}

// Deployment is the server itself, or those that it is the first of.
func (s *Server) Deployment() redistest.Deployment { return s.all }

// NewWire returns an undisturbed Wire to whatever a client dials.
func (s *Server) NewWire() *redistest.Wire { return s.all.NewWire() }

// NewClient returns a client, closed when the test ends. Each edit may change its options.
func (s *Server) NewClient(t testing.TB, edit ...func(*redis.Options)) redis.UniversalClient {
	return s.all.Universal(t, edit...)
}

// Keys lists the keys that begin with prefix.
func (s *Server) Keys(ctx context.Context, prefix string) ([]string, error) {
	if s.e.Config.OverNodes == nil {
		return redistest.Keys(ctx, s.Admin, prefix)
	}
	var all []string
	for _, node := range s.nodes {
		keys, err := redistest.Keys(ctx, node, prefix)
		if err != nil {
			return nil, err
		}
		all = append(all, keys...)
	}
	return all, nil
}

// Channels lists those of the scenario that somebody is subscribed to.
func (s *Server) Channels(ctx context.Context) (all []string, err error) {
	for _, node := range s.nodes {
		some, err := node.PubSubChannels(ctx, s.Prefix+"*").Result()
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// Child says what a child process with a role is to be.
func (s *Server) Child(role string) ChildSpec {
	o := s.all.Options()
	return ChildSpec{
		Role: role, Addrs: o.Addrs, Master: o.MasterName, Cluster: o.IsClusterMode,
		Prefix: s.Prefix, Kind: s.e.Config.Kind(),
	}
}

// RedisKey is where a key made by Key lives on the server.
func (s *Server) RedisKey(key string) string { return s.Prefix + ":{" + key + "}" }

// QueueKey is where the tickets for a key stand on the server, and TicketsKey where that says what they are.
func (s *Server) QueueKey(key string) string { return s.RedisKey(key) + ":" + s.permits() + "queue" }

// TicketsKey is QueueKey's.
func (s *Server) TicketsKey(key string) string {
	return s.RedisKey(key) + ":" + s.permits() + "tickets"
}

// Alive returns when processes that wait for a key were last seen, by their inboxes. In a Cluster those in the slots of other keys may be among them.
func (s *Server) Alive(key string) map[string]string {
	_, cluster := s.Admin.(*redis.ClusterClient)
	layout := script.NewLayout(s.Prefix, cluster)
	keys := layout.KeySet(key)
	all := s.Admin.HGetAll(s.e.Ctx, keys.Alive()).Val()
	maps.DeleteFunc(all, func(inbox, _ string) bool { return strings.HasPrefix(inbox, "#") })
	return all
}

// permits begins the names of what a semaphore has and a lock has, too.
func (s *Server) permits() string {
	if s.e.Config.Mode == PermitMode {
		return "permit"
	}
	return ""
}

// Status is what an Inspector says of a key.
func (s *Server) Status(key string) lockmw.Status {
	s.e.T.Helper()
	inspector, err := lockmw.NewInspector(s.Admin, lockmw.WithPrefix(s.Prefix))
	if err != nil {
		s.e.T.Fatal(err)
	}
	status, err := inspector.Get(s.e.Ctx, key)
	if err != nil {
		s.e.T.Error(err)
	}
	return status
}

// FlushScripts makes the server forget all scripts.
func (s *Server) FlushScripts() {
	s.e.T.Helper()
	if err := s.Admin.ScriptFlush(s.e.Ctx).Err(); err != nil {
		s.e.T.Error(err)
	}
}

// Fill makes the server one that has no memory left.
func (s *Server) Fill() {
	s.e.T.Helper()
	if err := s.Admin.ConfigSet(s.e.Ctx, "maxmemory-policy", "noeviction").Err(); err != nil {
		s.e.T.Fatal(err)
	}
	s.SetMaxMemory("1")
	s.e.T.Cleanup(func() { s.Admin.ConfigSet(context.Background(), "maxmemory", "0") })
	if err := s.Admin.Set(s.e.Ctx, s.Prefix+":more", "", 0).Err(); err == nil {
		s.e.T.Fatal("the server takes more data")
	}
}

// SetMaxMemory sets the server's limit.
func (s *Server) SetMaxMemory(limit string) {
	s.e.T.Helper()
	if err := s.Admin.ConfigSet(s.e.Ctx, "maxmemory", limit).Err(); err != nil {
		s.e.T.Fatal(err)
	}
}

// TicketsQueued waits until n tickets are in key's queue.
func (s *Server) TicketsQueued(key string, n int64) {
	s.e.T.Helper()
	s.e.Eventually(Patience, func() string {
		if s.Admin.ZCard(s.e.Ctx, s.QueueKey(key)).Val() == n {
			return ""
		}
		return "not all who wait are queued"
	})
}

// Again runs every recorded script about key once more, after each of which check is called.
func (s *Server) Again(commands []redistest.Command, key string, check func()) {
	s.e.T.Helper()
	n := 0
	for _, c := range commands {
		if !c.IsScript() || !c.Concerns(key) {
			continue
		}
		n++
		if _, err := c.Run(s.e.Ctx, s.Admin); err != nil {
			s.e.T.Errorf("run again: %v", err)
		}
		if check(); s.e.T.Failed() {
			s.e.T.Fatalf("after %s of %d words, the last ones %q", c[0], len(c), c[max(0, len(c)-6):])
		}
	}
	if n == 0 {
		s.e.T.Error("nothing was recorded")
	}
}

// Arrives has a command arrive that was withheld.
func (s *Server) Arrives(late *redistest.Fault) {
	s.e.T.Helper()
	if answer, err := late.Send(s.e.Ctx); err != nil {
		s.e.T.Fatalf("the late command: %q, %v", answer, err)
	}
}

// CheckClean looks for what the scenario left on the server, before anything is closed: the
// fencing counter and the marks of ids that are over may stay.
func (s *Server) CheckClean() {
	if s == nil {
		return
	}
	s.e.T.Helper()
	s.e.Eventually(AcceptWindow+2*PollInterval, func() string {
		// What clients wrote before they were closed runs at the latest in the turn of the server's loop in which this
		// does. A server that is late may have it still before it.
		if err := s.Admin.Ping(s.e.Ctx).Err(); err != nil {
			return err.Error()
		}
		keys, err := s.Keys(s.e.Ctx, s.Prefix)
		if err != nil {
			return err.Error()
		}
		var left []string
		for _, key := range keys {
			if !strings.HasSuffix(key, ":fence") && !strings.HasSuffix(key, ":alive") && key != s.Prefix+":deadlock" && !strings.Contains(key, "}:done:") {
				left = append(left, key)
			}
		}
		if len(left) == 0 {
			return ""
		}
		return "left on the server: " + strings.Join(left, " ")
	})
}
