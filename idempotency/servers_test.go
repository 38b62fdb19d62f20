package idempotency_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
)

// A site is where a test runs. It has a prefix of its own.
type site struct {
	redistest.Deployment
	prefix string
}

// patience has the end of a run succeed on a busy machine, and after an outage, when go-redis has no connection for up to a second.
var patience = lockmw.WithUnlockTimeout(time.Minute)

func newSite(d redistest.Deployment) *site { return &site{d, "idem-" + rand.Text()} }

func (s *site) client(t testing.TB, opts ...lockmw.ClientOption) *lockmw.Client {
	t.Helper()
	c, err := lockmw.New(s.Universal(t), append([]lockmw.ClientOption{patience, lockmw.WithPrefix(s.prefix)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// key returns the name of the lock of key in Redis.
func (s *site) key() string { return s.prefix + ":{" + key.LockKey() + "}" }

// takeLock deletes the lock of key from Redis, as if its lease had expired.
func (s *site) takeLock(t *testing.T) {
	t.Helper()
	if n, err := s.Universal(t).Del(t.Context(), s.key()).Result(); n != 1 || err != nil {
		t.Errorf("deleted %d keys: %v", n, err)
	}
}

// serverTests disturb a server or its connections.
var serverTests = []struct {
	name string
	test func(t *testing.T, s *site)
}{
	{"a lost lock does not lose the answer", testLostLock},
	{"a run that was replaced is not recorded", testReplacedRun},
	{"an answer that was found out is final", testFoundOut},
	{"a run that ends while its answer is found out wins", testFoundOutTooLate},
	{"runs that never return are limited", testSilentRuns},
	{"an unavailable server runs nothing", testUnavailableServer},
	{"a lost answer to the begin is not an unknown outcome", testLostBegin},
	{"a lost answer to the end is asked for again", testLostEnd},
	{"an answer that cannot be recorded is not reported", testUnrecordedAnswer},
	{"a record of another type is not touched", testOtherType},
	{"a fingerprint of another length matches no request", testStrangeFingerprint},
}

func onServer(t *testing.T, d redistest.Deployment) {
	t.Helper()
	for _, c := range serverTests {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, newSite(d))
		})
	}
}

func TestOnEachServer(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) { onServer(t, s) })
}

// lockerTests are those tests of all Lockers that matter most on several servers.
var lockerTests = []struct {
	name string
	test func(t *testing.T, locks lockmw.Locker)
}{
	{"a repetition gets the first result", testRepetition},
	{"simultaneous calls run the work once", testSimultaneousCalls},
	{"another request with the key is refused", testOtherRequest},
	{"a repetition waits for the first run", testWait},
	{"the policy decides about an unknown outcome", testPolicies},
	{"Recover finds an answer", recoveries["an answer"].test},
	{"Recover finds that nothing was done", recoveries["not done"].test},
	{"Resolve decides about an unknown outcome", func(t *testing.T, locks lockmw.Locker) {
		testResolve(t, locks, &receipt{7}, receipt{7})
	}},
}

func TestOnSeveralServers(t *testing.T) {
	suite.NeedsFull(t, "several servers take seconds to start")
	for name, start := range map[string]func(t *testing.T) redistest.Deployment{
		"Cluster":  func(t *testing.T) redistest.Deployment { return redistest.NewCluster(t, 3, 0) },
		"Sentinel": func(t *testing.T) redistest.Deployment { return redistest.NewSentinel(t, 1, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			onServer(t, d)
			for _, c := range lockerTests {
				t.Run(c.name, func(t *testing.T) { c.test(t, newSite(d).client(t)) })
			}
		})
	}
}

func testLostLock(t *testing.T, s *site) {
	c := s.client(t)
	once, shop := idempotency.New(c), &shop{}
	_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, o order) (receipt, error) {
		s.takeLock(t)
		return shop.order(ctx, o)
	})
	isError(t, err, nil)
	if got, err := shop.do(once, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
		t.Errorf("a repetition got %v, %v", got, err)
	}
}

func testReplacedRun(t *testing.T, s *site) {
	first, second := idempotency.New(s.client(t)), idempotency.New(s.client(t))
	shop := &shop{}
	_, err := idempotency.Do(t.Context(), first, key, order{"tea"}, idempotency.RunAgain, func(context.Context, order) (receipt, error) {
		s.takeLock(t)
		got, err := shop.do(second, "tea", idempotency.RunAgain)
		if err != nil || got.Number != 1 {
			t.Errorf("the second run got %v, %v", got, err)
		}
		return receipt{100}, nil
	})
	isError(t, err, idempotency.ErrNotRecorded)
	if got, err := shop.do(first, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
		t.Errorf("a repetition got %v, %v, want the answer of the second run", got, err)
	}
}

func testSilentRuns(t *testing.T, s *site) {
	once := idempotency.New(s.client(t))
	for i := range 3 {
		run, err := once.Begin(t.Context(), key, key.Fingerprint(), idempotency.RunAgain)
		if err != nil || run.Attempt() != i+1 {
			t.Fatalf("run %d: %v", i+1, err)
		}
		hold, _ := lockmw.FromContext(run.Context()) // it crashes: nothing ends the run
		s.takeLock(t)
		defer func() { _ = hold.Unlock() }()
	}
	_, err := once.Begin(t.Context(), key, key.Fingerprint(), idempotency.RunAgain)
	isError(t, err, idempotency.ErrUnknownOutcome)
	if e, _ := errors.AsType[*idempotency.Error](err); e.Unfinished == nil || e.Unfinished.Attempts != 3 {
		t.Errorf("%+v", e.Unfinished)
	}
}

func testUnavailableServer(t *testing.T, s *site) {
	wire := s.NewWire()
	c, err := lockmw.New(s.Universal(t, wire.Use), lockmw.WithPrefix(s.prefix), lockmw.WithFailOpen(), patience)
	isError(t, err, nil)
	defer func() {
		wire.Restore()
		isError(t, c.Close(), nil)
	}()
	once, shop := idempotency.New(c, idempotency.WithWait(0)), &shop{}
	wire.Cut()
	_, err = shop.do(once, "tea", idempotency.RunAgain)
	isError(t, err, lockmw.ErrUnavailable)
	if shop.count() != 0 {
		t.Errorf("the work ran %d times", shop.count())
	}
	wire.Restore()
	got, err := shop.do(idempotency.New(c), "tea", idempotency.Refuse)
	if err != nil || got.Number != 1 {
		t.Errorf("after the outage: %v, %v", got, err)
	}
}

func testLostBegin(t *testing.T, s *site) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rdb := s.Universal(t)
	var lose sync.Once
	rdb.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		err := send()
		if err == nil && strings.Contains(fmt.Sprint(cmds), key.LockKey()) {
			lose.Do(func() {
				if n := s.Universal(t).Exists(t.Context(), s.key()+":record").Val(); n != 1 {
					t.Errorf("the record is not open: %v", err)
				}
				cancel()
				err = io.EOF
				for _, cmd := range cmds {
					cmd.SetErr(err)
				}
			})
		}
		return err
	}))
	c, err := lockmw.New(rdb, lockmw.WithPrefix(s.prefix), patience)
	isError(t, err, nil)
	defer func() { isError(t, c.Close(), nil) }()
	once, shop := idempotency.New(c, idempotency.WithWait(time.Minute)), &shop{}
	_, err = idempotency.Do(ctx, once, key, order{"tea"}, idempotency.Refuse, shop.order)
	isError(t, err, context.Canceled)
	var got receipt
	for end := time.Now().Add(time.Minute); time.Now().Before(end); { // until the run is void
		if got, err = shop.do(once, "tea", idempotency.Refuse); !errors.Is(err, idempotency.ErrUnknownOutcome) {
			break
		}
	}
	if err != nil || got.Number != 1 || shop.count() != 1 {
		t.Errorf("got %v, %v after %d runs", got, err, shop.count())
	}
}

func testLostEnd(t *testing.T, s *site) {
	wire := s.NewWire()
	c, err := lockmw.New(s.Universal(t, wire.Use), lockmw.WithPrefix(s.prefix), patience)
	isError(t, err, nil)
	defer func() { isError(t, c.Close(), nil) }()
	once, shop := idempotency.New(c), &shop{}
	_, err = idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, o order) (receipt, error) {
		wire.LoseReply("eval", key.LockKey()+"}:record", "keep")
		return shop.order(ctx, o)
	})
	isError(t, err, nil)
	if got, err := shop.do(once, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
		t.Errorf("a repetition got %v, %v", got, err)
	}
}

func testUnrecordedAnswer(t *testing.T, s *site) {
	wire := s.NewWire()
	c, err := lockmw.New(s.Universal(t, wire.Use), lockmw.WithPrefix(s.prefix), lockmw.WithUnlockTimeout(100*time.Millisecond))
	isError(t, err, nil)
	defer func() {
		wire.Restore()
		isError(t, c.Close(), nil)
	}()
	once, shop := idempotency.New(c), &shop{}
	_, err = idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, o order) (receipt, error) {
		wire.Cut()
		return shop.order(ctx, o)
	})
	isError(t, err, idempotency.ErrNotRecorded)
	wire.Restore()
	var got receipt
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if got, err = shop.do(once, "tea", idempotency.Refuse); !errors.Is(err, idempotency.ErrInFlight) {
			break
		}
	}
	// The end may have reached the server later. Then the repetition gets the answer.
	if !errors.Is(err, idempotency.ErrUnknownOutcome) && (err != nil || got.Number != 1) || shop.count() != 1 {
		t.Errorf("a repetition got %v, %v after %d runs", got, err, shop.count())
	}
}

func testOtherType(t *testing.T, s *site) {
	rdb := s.Universal(t)
	once := idempotency.New(s.client(t))
	name := s.key() + ":record"
	isError(t, rdb.Set(t.Context(), name, "mine", 0).Err(), nil)
	_, err := (&shop{}).do(once, "tea", idempotency.Refuse)
	isError(t, err, lockmw.ErrWrongType)
	if v := rdb.Get(t.Context(), name).Val(); v != "mine" {
		t.Errorf("the key has %q", v)
	}
}

// A later release may have longer fingerprints.
func testStrangeFingerprint(t *testing.T, s *site) {
	rdb := s.Universal(t)
	once := idempotency.New(s.client(t))
	for state, fails := range map[string]error{"done": nil, "open": errBug} {
		k := idempotency.Key{Scope: "user-7", ID: state}
		shop := &shop{fail: fails}
		call := func() error {
			_, err := idempotency.Do(t.Context(), once, k, order{"tea"}, idempotency.RunAgain, shop.order)
			return err
		}
		isError(t, call(), fails)
		name := s.prefix + ":{" + k.LockKey() + "}:record"
		text, err := rdb.Get(t.Context(), name).Result()
		isError(t, err, nil)
		right := k.Fingerprint([]byte(`{"Item":"tea"}`)).String()
		if !strings.HasPrefix(text, state) || !strings.Contains(text, right) {
			t.Fatalf("the record is %q", text)
		}
		for _, other := range []string{right + "00", right[2:], right + "0", strings.Repeat("x", 200)} {
			isError(t, rdb.Set(t.Context(), name, strings.Replace(text, right, other, 1), time.Hour).Err(), nil)
			isError(t, call(), idempotency.ErrReused)
		}
	}
}

// finding is a policy that finds out a number.
func finding(n int) idempotency.Policy {
	return idempotency.Recover(func(context.Context, idempotency.Unfinished) (idempotency.Answer, error) {
		return idempotency.Result(receipt{n})
	})
}

func testFoundOut(t *testing.T, s *site) {
	once, shop := idempotency.New(s.client(t)), &shop{}
	_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(context.Context, order) (receipt, error) {
		s.takeLock(t)
		if got, err := shop.do(once, "tea", finding(7)); err != nil || got.Number != 7 {
			t.Errorf("the call that finds the answer out got %v, %v", got, err)
		}
		return receipt{1}, nil
	})
	isError(t, err, idempotency.ErrNotRecorded)
	if got, err := shop.do(once, "tea", idempotency.Refuse); err != nil || got.Number != 7 {
		t.Errorf("a repetition got %v, %v", got, err)
	}
}

func testFoundOutTooLate(t *testing.T, s *site) {
	once, shop := idempotency.New(s.client(t)), &shop{}
	_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, _ order) (receipt, error) {
		run, _ := idempotency.FromContext(ctx)
		s.takeLock(t)
		got, err := shop.do(once, "tea", idempotency.Recover(func(context.Context, idempotency.Unfinished) (idempotency.Answer, error) {
			own, err := idempotency.Result(receipt{1})
			if err == nil {
				err = run.Keep(own)
			}
			isError(t, err, nil)
			return idempotency.Result(receipt{7})
		}))
		if err != nil || got.Number != 1 {
			t.Errorf("the call that finds the answer out got %v, %v, want the answer of the run", got, err)
		}
		return receipt{1}, nil
	})
	isError(t, err, idempotency.ErrNotRecorded) // it has ended before
}
