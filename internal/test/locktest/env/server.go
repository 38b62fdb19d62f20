package env

import (
	"context"
	"crypto/rand"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/transport"
	"github.com/lockmw/go/lockmw"
)

// A Server is the server that a scenario's clients use.
type Server struct {
	*redistest.Server                       // the first of several
	Admin             redis.UniversalClient // takes no locks
	Prefix            string                // of all keys of the scenario

	all   redistest.Deployment
	nodes []*redis.Client // take no locks
	e     *Env
}

// newServer uses the shared server, or starts one for the scenario.
func newServer(t testing.TB, e *Env, shared redistest.Deployment) *Server {
	t.Helper()
	s := &Server{Prefix: "t" + strings.ToLower(rand.Text()[:10]), e: e}
	as := func(*redis.Options) {}
	switch {
	case shared == nil:
		s.all = e.Config.Server(t)
	case e.Config.external:
		s.all = shared
	default:
		s.all, as = shared, asGuest
	}
	s.Admin = s.all.Universal(t, as)
	nodes := s.all.Servers()
	for _, node := range nodes {
		s.nodes = append(s.nodes, node.NewClient(t, as))
	}
	s.Server = nodes[0]
	return s
}

// Deployment returns all servers.
func (s *Server) Deployment() redistest.Deployment { return s.all }

// NewWire returns an undisturbed Wire for a client.
func (s *Server) NewWire() *redistest.Wire { return s.all.NewWire() }

// NewClient returns a client that is closed when the test ends. Each edit may change its options.
func (s *Server) NewClient(t testing.TB, edit ...func(*redis.Options)) redis.UniversalClient {
	return s.all.Universal(t, edit...)
}

// Keys returns the keys that begin with prefix.
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

// Channels returns the scenario's channels that have subscribers.
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

// Child returns the ChildSpec of a process with this role.
func (s *Server) Child(role string) ChildSpec {
	o := s.all.Options()
	return ChildSpec{
		Role: role, Addrs: o.Addrs, Master: o.MasterName, Cluster: o.IsClusterMode,
		Prefix: s.Prefix, Slotted: s.e.Config.Slotted, Kind: s.e.Config.Kind(),
	}
}

// RedisKey returns the Redis key of a key made by Key.
func (s *Server) RedisKey(key string) string { return s.Prefix + ":{" + key + "}" }

// QueueKey returns the Redis key of the queue of key.
func (s *Server) QueueKey(key string) string { return s.RedisKey(key) + ":" + s.permits() + "queue" }

// TicketsKey returns the Redis key of the tickets' details.
func (s *Server) TicketsKey(key string) string {
	return s.RedisKey(key) + ":" + s.permits() + "tickets"
}

// Alive returns, by inbox, when processes that wait for a key were last seen. If there are slots it may include processes that wait
// for other keys.
func (s *Server) Alive(key string) map[string]string {
	keys := s.keySet(key)
	all := s.Admin.HGetAll(s.e.Ctx, keys.Alive()).Val()
	maps.DeleteFunc(all, func(inbox, _ string) bool { return strings.HasPrefix(inbox, "#") })
	return all
}

// BeatingSince returns since when processes that wait for a key have beaten without a gap; zero if unknown. Until DeadAfter has
// passed since then, none counts as dead.
func (s *Server) BeatingSince(key string) time.Time {
	keys := s.keySet(key)
	ms, err := s.Admin.HGet(s.e.Ctx, keys.Alive(), "#since").Int64()
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// FenceKey returns the Redis key of the fencing counter of key.
func (s *Server) FenceKey(key string) string {
	keys := s.keySet(key)
	return keys.Fence()
}

func (s *Server) keySet(key string) script.KeySet {
	_, cluster := s.Admin.(*redis.ClusterClient)
	layout := script.NewLayout(s.Prefix, transport.Topology{Cluster: cluster, Sharded: s.e.Config.Slotted})
	return layout.KeySet(key)
}

// permits returns the prefix of a semaphore's Redis key names.
func (s *Server) permits() string {
	if s.e.Config.Mode == PermitMode {
		return "permit"
	}
	return ""
}

// Inspector returns an Inspector of the scenario's locks.
func (s *Server) Inspector() *lockmw.Inspector {
	s.e.T.Helper()
	inspector, err := lockmw.NewInspector(s.Admin, s.e.Config.layout(s.Prefix)...)
	if err != nil {
		s.e.T.Fatal(err)
	}
	return inspector
}

// Status returns an Inspector's status of key.
func (s *Server) Status(key string) lockmw.Status {
	s.e.T.Helper()
	status, err := s.Inspector().Get(s.e.Ctx, key)
	if err != nil {
		s.e.T.Error(err)
	}
	return status
}

// FlushScripts removes all scripts from the server.
func (s *Server) FlushScripts() {
	s.e.T.Helper()
	if err := s.Admin.ScriptFlush(s.e.Ctx).Err(); err != nil {
		s.e.T.Error(err)
	}
}

// Fill makes the server run out of memory.
func (s *Server) Fill() {
	s.e.T.Helper()
	if err := s.Admin.ConfigSet(s.e.Ctx, "maxmemory-policy", "noeviction").Err(); err != nil {
		s.e.T.Fatal(err)
	}
	s.SetMaxMemory("1")
	s.e.T.Cleanup(func() { s.Admin.ConfigSet(context.Background(), "maxmemory", "0") })
	if err := s.Admin.Set(s.e.Ctx, s.Prefix+":more", "", 0).Err(); err == nil {
		s.e.T.Fatal("the server still accepts writes")
	}
}

// SetMaxMemory sets maxmemory.
func (s *Server) SetMaxMemory(limit string) {
	s.e.T.Helper()
	if err := s.Admin.ConfigSet(s.e.Ctx, "maxmemory", limit).Err(); err != nil {
		s.e.T.Fatal(err)
	}
}

// TicketsQueued waits until key's queue has n tickets.
func (s *Server) TicketsQueued(key string, n int64) {
	s.e.T.Helper()
	s.e.Eventually(Patience, func() string {
		if s.Admin.ZCard(s.e.Ctx, s.QueueKey(key)).Val() == n {
			return ""
		}
		return "not all calls are queued"
	})
}

// Rerun runs every recorded script about key again, and calls check after each.
func (s *Server) Rerun(commands []redistest.Command, key string, check func()) {
	s.e.T.Helper()
	n := 0
	for _, c := range commands {
		if !c.IsScript() || !c.Concerns(key) {
			continue
		}
		n++
		if _, err := redistest.Rerun(s.e.Ctx, s.Admin, c); err != nil {
			s.e.T.Errorf("rerun: %v", err)
		}
		if check(); s.e.T.Failed() {
			s.e.T.Fatalf("after %s of %d words, which ends with %q", c[0], len(c), c[max(0, len(c)-6):])
		}
	}
	if n == 0 {
		s.e.T.Error("nothing was recorded")
	}
}

// Deliver sends a withheld command to the server.
func (s *Server) Deliver(late *redistest.Fault) {
	s.e.T.Helper()
	if answer, err := late.Send(s.e.Ctx); err != nil {
		s.e.T.Fatalf("the late command: %q, %v", answer, err)
	}
}

// CheckClean checks that the scenario left nothing on the server except fencing counters and done marks. It runs before any
// client is closed.
func (s *Server) CheckClean() {
	if s == nil {
		return
	}
	s.e.T.Helper()
	s.e.Eventually(AcceptWindow+2*PollInterval, func() string {
		// Commands that clients sent before they were closed run no later than in the server's event-loop iteration of this
		// PING. A slow server may not have run them yet.
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
