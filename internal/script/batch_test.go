package script_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/transport"
)

// acquireBatch runs acquire_batch.lua, with one id for all keys.
func acquireBatch(d *scripttest.Driver, id string, keys ...string) ([]int64, error) {
	d.Helper()
	redisKeys := []string{d.Keys.Fence()}
	args := []any{"inbox"}
	for _, key := range keys {
		s := d.Sibling(key)
		redisKeys = append(redisKeys, s.Holder(), s.Queue(), s.Done(id))
		args = append(args, id, 30_000, "owner")
	}
	return numbers(d.Eval("acquire_batch", redisKeys, args...))
}

// numbers returns the numbers in the answer of a batch script, including tokens, which are text.
func numbers(answer any, err error) ([]int64, error) {
	if err != nil {
		return nil, err
	}
	return redis.NewCmdResult(answer, nil).Int64Slice()
}

func TestAcquireBatch(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		key, more := d.Key, []string{"a", "b"}
		granted := func(what string, tokens []int64, err error, want ...bool) int64 {
			d.Helper()
			if err != nil || len(tokens) != len(want) {
				d.Fatalf("%s: %v, %v", what, tokens, err)
			}
			var last int64
			for i, token := range tokens {
				if (token > 0) != want[i] || token != -1 && token <= last {
					d.Errorf("%s: tokens %v", what, tokens)
				}
				last = max(last, token)
			}
			return last
		}
		// After a loss of the counter any token of this microsecond may have been given.
		tokens, err := acquireBatch(d, "1", more...)
		last := granted("without a counter", tokens, err, true, false)
		d.Redis.Del(d.Context(), "lockmw:{a}")
		scripttest.PassToken(d, last)

		tokens, err = acquireBatch(d, "2", key, "a", key, "b")
		last = granted("one twice", tokens, err, true, true, false, true)
		d.WantHolder("2")
		if n, _ := d.Redis.Get(d.Context(), "lockmw:fence").Int64(); n < last {
			d.Errorf("the counter is %d after token %d", n, last)
		}
		tokens, err = acquireBatch(d, "2", key, "a", "b")
		granted("repeated", tokens, err, false, false, false)
		d.Redis.Del(d.Context(), "lockmw:{a}", "lockmw:{b}", d.Keys.Holder())

		d.Cancel("3") // overtakes
		counter, err := d.Redis.Get(d.Context(), "lockmw:fence").Int64()
		if err != nil {
			d.Fatal(err)
		}
		scripttest.PassToken(d, counter)
		tokens, err = acquireBatch(d, "3", key, "a")
		granted("after its cancel", tokens, err, false, true)
		d.WantHolder("")

		// A counter that is ahead of the clock.
		ahead := time.Now().Add(time.Hour).UnixMicro()
		d.Redis.Set(d.Context(), "lockmw:fence", ahead, 0)
		tokens, err = acquireBatch(d, "4", key, "b")
		if last := granted("ahead of the clock", tokens, err, true, false); last <= ahead {
			d.Errorf("token %d after %d", last, ahead)
		}
		d.Redis.Set(d.Context(), "lockmw:fence", "strange", 0)
		if tokens, err = acquireBatch(d, "5", "c"); err == nil {
			d.Errorf("with a strange counter: %v", tokens)
		}
		if n := d.Redis.Exists(d.Context(), "lockmw:{c}").Val(); n > 0 {
			d.Error("taken with a strange counter")
		}
	})
}

func TestReleaseBatch(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		const released, notPlain = 1, -1 // as release_batch.lua answers
		d.Lock("a")
		want := func(what, id string, want int64) {
			d.Helper()
			got, err := numbers(d.Eval("release_batch", []string{d.Keys.Holder(), d.Keys.Queue()}, id))
			if err != nil || len(got) != 1 || got[0] != want {
				d.Errorf("%s: %v, %v, want %d", what, got, err, want)
			}
		}
		want("another's", "b", notPlain)
		d.WantHolder("a")
		d.Lock("b")
		want("with others waiting", "a", notPlain)
		d.WantHolder("a")
		d.Cancel("b")
		want("its own", "a", released)
		d.WantHolder("")
		want("repeated", "a", notPlain)
		d.Redis.Set(d.Context(), d.Keys.Holder(), "a string", 0)
		want("somebody's key", "a", notPlain)
	})
}

// The batch scripts take their arguments from the positions that these have in a Call.
func TestABatchTakesWhatCallsHave(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		g := gather(t, s)
		wire, sees, set, layout := g.wire, g.sees, g.set, g.layout
		const n = 5
		keys, ids := make([]script.KeySet, n), make([]*script.ID, n)
		sees.Set(t.Context(), layoutFence(&layout), 1, 0) // so that there are tokens for all
		run := func(batch string, alone int, prepare func(i int, done func(*transport.Reply)) *transport.Call) {
			t.Helper()
			wire.Record()
			calls := make([]*transport.Call, n)
			replies := 0
			for i := range calls {
				calls[i] = prepare(i, func(*transport.Reply) { replies++ })
			}
			g.sender.RunBatch(t.Context(), calls)
			if replies != n {
				t.Errorf("%s: %d answers", batch, replies)
			}
			source, others := set.All()[batch], make(map[string]bool)
			for _, c := range wire.Sent() {
				if c.IsScript() && c[1] != source.SHA && c[1] != source.Source {
					others[c[3+6]] = true // by what is sent on its own: the key after the first six
				}
			}
			if len(others) != alone {
				t.Errorf("%s: %d were sent on their own, want %d", batch, len(others), alone)
			}
		}
		const over, another = 1, 2 // one is over when its acquire arrives, and one is another's when it is released
		answers := make([]script.Acquired, n)
		run("acquire_batch", 1, func(i int, done func(*transport.Reply)) *transport.Call {
			keys[i], ids[i] = layout.KeySet(fmt.Sprint("item:", i)), scripttest.ID(fmt.Sprint("id", i))
			if i == over {
				sees.Set(t.Context(), keys[i].Done(ids[i].String()), 1, time.Hour)
			}
			a := script.Acquire{
				Keys: &keys[i], ID: ids[i], Lease: time.Duration(i+1) * time.Minute, Info: script.HolderInfo{Owner: fmt.Sprint("owner-", i)},
				Inbox: "inbox", Tokens: 1, QueueTokens: 1,
			}
			return a.Call(context.Background(), set, func(r *transport.Reply) {
				answers[i], _ = script.AcquireAnswer(r, "")
				done(r)
			})
		})
		for i, got := range answers {
			if i == over {
				if got.Outcome != script.Over || sees.Exists(t.Context(), keys[i].Holder()).Val() > 0 {
					t.Errorf("an id that has ended: %+v", got)
				}
				continue
			}
			h := sees.HGetAll(t.Context(), keys[i].Holder()).Val()
			ttl := sees.PTTL(t.Context(), keys[i].Holder()).Val()
			lease := time.Duration(i+1) * time.Minute
			if got.Outcome != script.Held || h["id"] != ids[i].String() || h["owner"] != fmt.Sprint("owner-", i) ||
				h["token"] != fmt.Sprint(got.Grant.Token) || h["inbox"] != "inbox" || ttl > lease || ttl < lease-scripttest.Soon {
				t.Errorf("number %d: %+v; the server has %v for %v", i, got, h, ttl)
			}
		}
		sees.HSet(t.Context(), keys[another].Holder(), "id", "another")
		outcomes := make([]script.Outcome, n)
		run("release_batch", 2, func(i int, done func(*transport.Reply)) *transport.Call {
			l := script.Release{Keys: &keys[i], ID: ids[i]}
			return l.Call(context.Background(), set, func(r *transport.Reply) {
				outcomes[i], _ = script.EndedAnswer(r)
				done(r)
			})
		})
		for i, got := range outcomes {
			want := script.Done
			if i == over || i == another {
				want = script.NotHeld
			}
			if left := sees.Exists(t.Context(), keys[i].Holder()).Val() == 1; got != want || left != (i == another) {
				t.Errorf("release of number %d: %v, left behind: %t", i, got, left)
			}
		}
	})
}

func layoutFence(l *script.Layout) string {
	s := l.KeySet("any")
	return s.Fence()
}
