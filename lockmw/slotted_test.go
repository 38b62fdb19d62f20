package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

// A plain client that was pointed at a node of a Cluster, or at a proxy in front of one, learns what to use instead.
func TestWithoutSlottedKeysTheErrorSaysWhatToUse(t *testing.T) {
	t.Parallel()
	locks := usertest.ClientOf(t, redistest.Slotted(t).NewClient(t))
	_, _, err := locks.TryLock(t.Context(), "user:42")
	if !errors.Is(err, lockmw.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"CROSSSLOT", "for a Redis Cluster use redis.NewClusterClient", "for a proxy use lockmw.WithSlottedKeys"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say: %s", err, want)
		}
	}
}

func TestSlottedKeysRefuseWhatAProxyHides(t *testing.T) {
	t.Parallel()
	rdb := redistest.Mini(t).NewClient(t)
	for name, option := range map[string]lockmw.ClientOption{
		"WithQuarantine": lockmw.WithQuarantine(time.Minute),
		"WithReplicas":   lockmw.WithReplicas(1, time.Second),
	} {
		_, err := lockmw.New(rdb, lockmw.WithSlottedKeys(), option)
		if !errors.Is(err, lockmw.ErrInvalidOption) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "WithSlottedKeys") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := lockmw.NewInspector(rdb, lockmw.WithSlottedKeys(), lockmw.WithQuarantine(time.Minute)); !errors.Is(err, lockmw.ErrInvalidOption) {
		t.Errorf("an Inspector: %v", err)
	}
}

// A Cluster client has the layout in any case, so the option may stay in a program for both.
func TestAClusterClientIgnoresSlottedKeys(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:5"}})
	defer rdb.Close()
	usertest.ClientOf(t, rdb, lockmw.WithSlottedKeys(), lockmw.WithQuarantine(time.Minute))
}

// Clients with and without the option share a server that accepts both. Docs say what this costs; locks still exclude each other.
func TestLocksWithAndWithoutSlottedKeysExcludeEachOther(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	with, without := usertest.ClientOf(t, s.NewClient(t), lockmw.WithSlottedKeys()), usertest.ClientOf(t, s.NewClient(t))
	for _, pair := range [][2]*lockmw.Client{{with, without}, {without, with}} {
		_, first := usertest.Lock(t, t.Context(), pair[0], "user:42")
		if _, _, err := pair[1].TryLock(t.Context(), "user:42"); !errors.Is(err, lockmw.ErrBusy) {
			t.Errorf("a second holder: %v", err)
		}
		waits := make(chan int64)
		go func() { waits <- tokenOf(t, pair[1], "user:42") }()
		awaitWaiter(t, s.NewClient(t), "user:42")
		usertest.Unlock(t, first)
		if next := <-waits; next <= first.Token() {
			t.Errorf("token %d after %d", next, first.Token())
		}
	}
}

// tokenOf takes and releases a lock, and returns its token.
func tokenOf(t *testing.T, locks lockmw.Locker, key string) int64 {
	_, h, err := locks.Lock(t.Context(), key)
	if err != nil {
		t.Error(err)
		return 0
	}
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}
	return h.Token()
}

// awaitWaiter returns when a call waits for key.
func awaitWaiter(t *testing.T, rdb redis.UniversalClient, key string) {
	t.Helper()
	i := usertest.Inspector(t, rdb, lockmw.WithSlottedKeys())
	usertest.Eventually(t, "a call waits for "+key, time.Minute, func() bool {
		status, err := i.Get(t.Context(), key)
		return err == nil && status.Waiting() > 0
	})
}

// The keys are at three servers that the client does not know. These refuse a script that uses a key of another one.
func TestSlottedKeysWorkBehindAShardingProxy(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 3, 0)
	addr := c.NewShardingProxy(t)
	newRedis := func() *redis.Client {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	exercise(t, newRedis, []string{c.KeyAt(0), c.KeyAt(1), c.KeyAt(2), c.KeyAt(0)}, lockmw.WithSlottedKeys())
}

// Dragonfly refuses other keys by default. docs/servers.md says what works there.
func TestLocksUseOnlyKeysThatTheyDeclare(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	newRedis := func() *redis.Client {
		rdb := s.NewClient(t)
		redistest.RefuseUndeclaredKeys(rdb)
		return rdb
	}
	exercise(t, newRedis, []string{"user:1", "user:2", "user:3"}, lockmw.WithSlottedKeys())
}

// exercise uses all kinds of locks and records in two processes.
func exercise(t *testing.T, newRedis func() *redis.Client, keys []string, opts ...lockmw.ClientOption) {
	t.Helper()
	a, b := usertest.ClientOf(t, newRedis(), opts...), usertest.ClientOf(t, newRedis(), opts...)
	var mu sync.Mutex
	fastest := make(map[string]time.Duration)
	var wg sync.WaitGroup
	for name, of := range map[string]func(*lockmw.Client) lockmw.Locker{
		"plain":  func(c *lockmw.Client) lockmw.Locker { return c },
		"fair":   func(c *lockmw.Client) lockmw.Locker { return fairlock.New(c) },
		"write":  func(c *lockmw.Client) lockmw.Locker { return rwlock.New(c) },
		"read":   func(c *lockmw.Client) lockmw.Locker { return rwlock.New(c).RLocker() },
		"permit": func(c *lockmw.Client) lockmw.Locker { return semaphore.New(c, 1) },
	} {
		holder, waiter := usertest.ClientOf(t, newRedis(), opts...), usertest.ClientOf(t, newRedis(), opts...)
		from, to, rdb := of(holder), of(waiter), newRedis()
		if name == "read" {
			from = rwlock.New(holder)
		}
		wg.Go(func() {
			for _, key := range keys {
				d := timeHandOver(t, from, to, rdb, name+":"+key)
				mu.Lock()
				if least, ok := fastest[name]; !ok || d < least {
					fastest[name] = d
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for name, took := range fastest {
		if took > 500*time.Millisecond { // a poll comes after 750 ms
			t.Errorf("messages do not arrive: the fastest hand-over of a %s lock took %v", name, took)
		}
	}

	_, all, err := lockmw.LockAll(t.Context(), a, keys)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if _, _, err := b.TryLock(t.Context(), key); !errors.Is(err, lockmw.ErrBusy) {
			t.Errorf("one of several locks: %v", err)
		}
	}
	usertest.Unlock(t, all)

	for i := range 10 {
		once := idempotency.New([]*lockmw.Client{a, b}[i%2])
		key := idempotency.Key{Scope: "acme", ID: fmt.Sprint(i / 2)}
		got, err := idempotency.Do(t.Context(), once, key, "order", idempotency.Refuse, func(context.Context, string) (int, error) { return i, nil })
		if err != nil || got != i/2*2 {
			t.Errorf("request %d: %d, %v", i, got, err)
		}
	}
	force(t, newRedis(), a, keys[0], opts...)
}

// force releases a lock by force.
func force(t *testing.T, rdb *redis.Client, locks lockmw.Locker, key string, opts ...lockmw.ClientOption) {
	t.Helper()
	held, _ := usertest.Lock(t, t.Context(), locks, key, lockmw.WithLease(6*time.Second)) // which a renewal after 2 s finds gone
	i := usertest.Inspector(t, rdb, opts...)
	status, err := i.Get(t.Context(), key)
	if err != nil || len(status.Holders) != 1 {
		t.Fatalf("%+v %v", status, err)
	}
	if err := i.ForceUnlock(t.Context(), key, status.Holders[0]); err != nil {
		t.Error(err)
	}
	<-held.Done()
	if cause := context.Cause(held); !errors.Is(cause, lockmw.ErrLost) {
		t.Errorf("the holder's context ended with %v", cause)
	}
}

// timeHandOver returns how long after its release a lock reaches the next process.
func timeHandOver(t *testing.T, from, to lockmw.Locker, rdb redis.UniversalClient, key string) time.Duration {
	t.Helper()
	for range 2 { // the first wait subscribes
		tokenOf(t, to, key)
	}
	_, h := usertest.Lock(t, t.Context(), from, key)
	got := make(chan int64)
	go func() { got <- tokenOf(t, to, key) }()
	awaitWaiter(t, rdb, key)
	begun := time.Now()
	usertest.Unlock(t, h)
	next := <-got
	took := time.Since(begun)
	if reads := strings.HasPrefix(key, "read:"); next < h.Token() || next == h.Token() && !reads { // a reader has the token of the write before
		t.Errorf("%s: token %d after %d", key, next, h.Token())
	}
	return took
}
