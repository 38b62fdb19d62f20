package transport_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/transport"
)

// A sending is a way in which a Sender sends calls.
type sending struct {
	name  string
	calls func(set *script.Set, done func(*transport.Reply)) []*transport.Call
	by    func(s *transport.Sender, calls []*transport.Call)
}

// sendings lists the ways, for keys of a layout.
func sendings(layout script.Layout) []sending {
	acquire := func(key, id string, edit ...func(*script.Acquire)) func(*script.Set, func(*transport.Reply)) *transport.Call {
		keys := layout.KeySet(key)
		a := script.Acquire{
			Keys: &keys, ID: scripttest.ID(id), Lease: time.Minute, Info: script.HolderInfo{Owner: "o"}, Mode: core.Exclusive,
			Inbox: "inbox", Tokens: 1, QueueTokens: 1,
		}
		for _, f := range edit {
			f(&a)
		}
		return func(set *script.Set, done func(*transport.Reply)) *transport.Call {
			return a.Call(context.Background(), set, done)
		}
	}
	fair := func(a *script.Acquire) { a.Mode, a.MayBatch = core.Fair, true }
	vote := func(a *script.Acquire) { a.Vote = new(core.Vote) }
	release := func(key string) func(*script.Set, func(*transport.Reply)) *transport.Call {
		keys := layout.KeySet(key)
		l := script.Release{Keys: &keys, ID: scripttest.ID("a1")}
		return func(set *script.Set, done func(*transport.Reply)) *transport.Call {
			return l.Call(context.Background(), set, done)
		}
	}
	all := func(prepare ...func(*script.Set, func(*transport.Reply)) *transport.Call) func(*script.Set, func(*transport.Reply)) []*transport.Call {
		return func(set *script.Set, done func(*transport.Reply)) []*transport.Call {
			calls := make([]*transport.Call, len(prepare))
			for i, p := range prepare {
				calls[i] = p(set, done)
			}
			return calls
		}
	}
	batch := func(s *transport.Sender, calls []*transport.Call) { s.RunBatch(context.Background(), calls) }
	return []sending{
		{"alone", all(acquire("1", "a1")), func(s *transport.Sender, calls []*transport.Call) { s.Start(calls[0]) }},
		{"inline", all(acquire("1", "a1")), func(s *transport.Sender, calls []*transport.Call) { s.Inline(calls[0], true) }},
		{"a pipeline", all(acquire("1", "a1", fair), release("2"), acquire("3", "a1", fair), release("4")), batch},
		{"several free locks", all(acquire("1", "a1"), acquire("2", "a1"), acquire("3", "a1"), acquire("4", "a1")), batch},
		{"several releases", all(release("1"), release("2"), release("3")), batch},
		{"several votes", all(acquire("1", "a1", vote), acquire("2", "a1", vote), acquire("3", "a1", vote)), batch},
		{"a queue", all(acquire("held", "a2", fair), acquire("held", "a3", fair), acquire("held", "a4", fair), acquire("held", "a5", fair)), batch},
	}
}

// A forgetful is an embedded server that loses its scripts before some commands, as by SCRIPT FLUSH of another client. It has run
// for long, and has a replica that acknowledges everything.
type forgetful struct {
	s       *redistest.Server
	mask    int // bit n: before the nth EVALSHA
	evalsha int
}

const maskBits = 5

func newForgetful(t *testing.T) *forgetful {
	f := &forgetful{s: redistest.Mini(t)}
	f.s.Mini.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		switch cmd {
		case "INFO":
			c.WriteBulk(fmt.Sprintf("# Server\r\nuptime_in_seconds:1000\r\n# Replication\r\nrole:master\r\nmaster_replid:%040[1]d\r\n"+
				"master_replid2:%040[2]d\r\nrepl_backlog_active:0\r\n", 1, 0))
		case "CONFIG":
			c.WriteStrings([]string{"repl-backlog-ttl", "3600"})
		case "WAIT":
			c.WriteInt(1)
		case "EVALSHA":
			n := min(f.evalsha, maskBits) // the last bit is for all that follow
			f.evalsha++
			if f.mask&(1<<n) == 0 {
				return false
			}
			c.WriteError("NOSCRIPT No matching script. Please use EVAL.")
		default:
			return false
		}
		return true
	})
	return f
}

func TestNoCallerNoticesThatAServerLostItsScripts(t *testing.T) {
	f := newForgetful(t)
	sees := f.s.NewClient(t)
	layout := script.NewLayout("lockmw", transport.Topology{})
	for _, replicas := range []int{0, 1} {
		for _, quarantine := range []time.Duration{0, time.Minute} {
			for mask := range 1 << (maskBits + 1) {
				if !suite.Full() && mask%7 != 0 && mask != 2 && mask != 1<<(maskBits+1)-1 {
					continue
				}
				for _, way := range sendings(layout) {
					sees.FlushAll(t.Context())
					sees.HSet(t.Context(), "lockmw:{held}", "id", "h", "owner", "o", "token", 1, "inbox", "i")
					sees.PExpire(t.Context(), "lockmw:{held}", time.Minute)
					f.mask, f.evalsha = mask, 0
					rdb := f.s.NewClient(t)
					params := script.DefaultParams(true)
					params.Quarantine = script.NewQuarantine(rdb, layout, quarantine)
					sender := transport.NewSender(rdb, transport.Topology{Single: true}, time.Second, transport.Replicas{Count: replicas, Timeout: time.Second})
					sender.SetBatching(true)
					errs := send(t, sender, script.NewSet(params), way)
					f.mask = 0
					sender.Stop()
					_ = rdb.Close()
					if len(errs) > 0 {
						t.Errorf("%s, %d replicas, quarantine %v, forgotten %b: %v", way.name, replicas, quarantine, mask, errs)
					}
				}
			}
		}
	}
}

// send sends calls in a way, and returns the errors in their answers.
func send(t *testing.T, sender *transport.Sender, set *script.Set, way sending) (errs []error) {
	t.Helper()
	answers := make(chan *transport.Reply, 8)
	calls := way.calls(set, func(r *transport.Reply) { answers <- r })
	way.by(sender, calls)
	for range calls {
		select {
		case r := <-answers:
			if err := errors.Join(r.Err, r.ReplicaErr); err != nil {
				errs = append(errs, err)
			}
		case <-t.Context().Done():
			t.Fatal("no answer")
		}
	}
	return errs
}

// A flusher is a hook of the clients of nodes that flushes the scripts of a node before each command and each pipeline.
type flusher struct{ node *redis.Client }

func (f flusher) flush(ctx context.Context, cmd redis.Cmder) {
	if strings.HasPrefix(cmd.Name(), "eval") {
		f.node.ScriptFlush(ctx)
	}
}

// DialHook implements redis.Hook.
func (flusher) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (f flusher) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		f.flush(ctx, cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (f flusher) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			f.flush(ctx, cmd)
		}
		return next(ctx, cmds)
	}
}

// The same on a Cluster, where a slot moves in the meantime: its new node also lacks the scripts.
func TestNoCallerNoticesThatANodeLostItsScripts(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 2, 0)
	layout := script.NewLayout("lockmw", transport.Topology{Cluster: true})
	for _, quarantine := range []time.Duration{0, time.Second} {
		rdb := c.Client(t)
		rdb.OnNewNode(func(node *redis.Client) {
			flushes := redis.NewClient(&redis.Options{Addr: node.Options().Addr})
			t.Cleanup(func() { _ = flushes.Close() })
			node.AddHook(flusher{flushes})
		})
		params := script.DefaultParams(false)
		params.Quarantine = script.NewQuarantine(rdb, layout, quarantine)
		set := script.NewSet(params)
		sender := transport.NewSender(rdb, transport.Topology{Cluster: true}, time.Second, transport.Replicas{})
		t.Cleanup(sender.Stop)
		for _, way := range sendings(layout) {
			for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // polling, until the quarantine has passed
				errs := send(t, sender, set, way)
				if len(errs) == 0 {
					break
				}
				if text := fmt.Sprint(errs); !strings.Contains(text, "may have lost locks") || time.Now().After(end) {
					t.Fatalf("%s, quarantine %v: %v", way.name, quarantine, errs)
				}
			}
		}
		c.Move("lockmw:{1}")
		for _, way := range sendings(layout) {
			if errs := send(t, sender, set, way); len(errs) > 0 && !strings.Contains(fmt.Sprint(errs), "may have lost locks") {
				t.Errorf("after a move: %s, quarantine %v: %v", way.name, quarantine, errs)
			}
		}
	}
}
