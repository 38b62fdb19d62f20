package script_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/transport"
)

// A voteRun is one lock in an execution of vote_batch.lua.
type voteRun struct {
	key      string
	tokens   int
	trace    string
	proposal int64
}

// voteBatch runs vote_batch.lua, with one id for all keys. It returns the first token and the number of tokens for each lock;
// -1: left to acquire.lua.
func voteBatch(d *scripttest.Driver, id string, runs ...voteRun) (tokens, counts []int64, err error) {
	d.Helper()
	keys, args := []string{d.Keys.Fence()}, []any{"inbox"}
	for _, r := range runs {
		s := d.Sibling(r.key)
		keys = append(keys, s.Holder(), s.Queue(), s.Done(id))
		args = append(args, id, 30_000, "owner", r.tokens, r.trace, r.proposal)
	}
	answer, err := d.Eval("vote_batch", keys, args...)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range answer.([]any) {
		token, count := int64(-1), int64(0)
		if list, ok := a.([]any); ok {
			token, count = list[1].(int64), list[2].(int64)
		} else if a != int64(-1) {
			d.Fatalf("answered %v", a)
		}
		tokens, counts = append(tokens, token), append(counts, count)
	}
	return tokens, counts, nil
}

func TestABatchOfVotesGivesWhatIsProposed(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Change(giveTokensAhead)
		soon := aheadOfClock()
		tokens, counts, err := voteBatch(d, "1", voteRun{d.Key, 1, "", soon}, voteRun{"a", 3, "trace", soon + 7},
			voteRun{"b", 1, "", soon + 8}, voteRun{d.Key, 1, "", soon + 20})
		if err != nil || fmt.Sprint(tokens) != fmt.Sprint([]int64{soon, soon + 7, soon + 10, -1}) || fmt.Sprint(counts) != "[1 3 1 0]" {
			d.Fatalf("tokens %v, %v of each, %v; proposed from %d", tokens, counts, err, soon)
		}
		if last, _ := d.Look().Counter(); last != soon+10 {
			d.Errorf("the counter is %d, want %d", last, soon+10)
		}
		a := d.Redis.HGetAll(d.Context(), "lockmw:{a}").Val()
		if a["tokens"] != "3" || a["trace"] != "trace" || a["since"] == "" || a["id"] != "1" || a["inbox"] != "inbox" {
			d.Errorf("the holder is %v", a)
		}
		tokens, _, err = voteBatch(d, "1", voteRun{d.Key, 1, "", soon}, voteRun{"a", 1, "", soon})
		if last, _ := d.Look().Counter(); err != nil || fmt.Sprint(tokens) != "[-1 -1]" || last != soon+10 {
			d.Errorf("repeated: %v, %v, the counter is %d", tokens, err, last)
		}
		d.Redis.Del(d.Context(), "lockmw:{a}", "lockmw:{b}", d.Keys.Holder())
		d.Cancel("2") // overtakes
		far := time.Now().Add(2 * tokensAhead).UnixMicro()
		tokens, _, err = voteBatch(d, "2", voteRun{d.Key, 1, "", 0}, voteRun{"a", 1, "", far}, voteRun{"b", 1, "", 0})
		if err != nil || tokens[0] != -1 || tokens[1] != soon+11 || tokens[2] != soon+12 {
			d.Errorf("after a cancel, and without a proposal that it may give: %v, %v", tokens, err)
		}
		d.Redis.Set(d.Context(), d.Keys.Fence(), "strange", 0)
		if _, _, err := voteBatch(d, "3", voteRun{"c", 1, "", 0}); err == nil || d.Redis.Exists(d.Context(), "lockmw:{c}").Val() > 0 {
			d.Errorf("with a strange counter: %v", err)
		}
		d.Redis.Del(d.Context(), "lockmw:{a}", "lockmw:{b}", d.Keys.Fence())
	})
}

// The batch script takes its arguments from the positions that these have in a Call.
func TestABatchOfVotesTakesWhatCallsHave(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		g := gather(t, s)
		wire, sees, layout, params := g.wire, g.sees, g.layout, script.DefaultParams(true)
		giveTokensAhead(&params)
		set := script.NewSet(params)
		const n, queues, busy, follows = 6, 3, 4, 5 // the last but one has another's key, the last one a predecessor
		soon := aheadOfClock()
		calls, answers, keys := make([]*transport.Call, n), make([]script.Acquired, n), make([]script.KeySet, n)
		for i := range calls {
			keys[i] = layout.KeySet(fmt.Sprint("item:", i))
			a := script.Acquire{
				Keys: &keys[i], ID: scripttest.ID(fmt.Sprint("id", i)), Lease: time.Duration(i+1) * time.Minute, Mode: core.Exclusive,
				Info: script.HolderInfo{Owner: fmt.Sprint("owner-", i)}, Inbox: "inbox", Tokens: i + 1,
				Vote: &core.Vote{Token: soon + int64(100*i), Tokens: i + 1, NotifyHolder: i%2 == 1},
			}
			switch i {
			case queues:
				a.QueueTokens = 1
			case busy:
				sees.HSet(t.Context(), keys[i].Holder(), "id", "another", "owner", "another", "token", 1, "inbox", "another")
			case follows:
				a.Predecessor = &script.Predecessor{ID: scripttest.ID("before"), Lease: time.Minute}
			}
			calls[i] = a.Call(context.Background(), set, func(r *transport.Reply) {
				var err error
				if answers[i], err = script.AcquireAnswer(r, "lockmw:inbox:"); err != nil {
					t.Errorf("number %d: %v", i, err)
				}
			})
		}
		wire.Record()
		g.sender.RunBatch(t.Context(), calls)
		batch, alone := set.All()["vote_batch"], 0
		for _, c := range wire.Sent() {
			if c.IsScript() && c[1] != batch.SHA && c[1] != batch.Source {
				alone++
			}
		}
		if alone < 2 { // and again if the server did not know the script
			t.Errorf("%d were sent on their own", alone)
		}
		for i, got := range answers[:busy] {
			h := sees.HGetAll(t.Context(), keys[i].Holder()).Val()
			ttl, lease := sees.PTTL(t.Context(), keys[i].Holder()).Val(), time.Duration(i+1)*time.Minute
			if got.Outcome != script.Held || got.Grant.Token != soon+int64(100*i) || got.Grant.Tokens != int64(i+1) || got.Clock == 0 ||
				h["id"] != fmt.Sprint("id", i) || h["owner"] != fmt.Sprint("owner-", i) || ttl > lease || ttl < lease-scripttest.Soon {
				t.Errorf("number %d: %+v; the server has %v for %v", i, got, h, ttl)
			}
		}
		if got := answers[busy]; got.Outcome != script.Queued {
			t.Errorf("another's: %+v", got)
		}
		if got := answers[follows]; got.Outcome != script.Held {
			t.Errorf("one with a predecessor: %+v", got)
		}
	})
}
