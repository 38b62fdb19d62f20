package lockmw_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// The options of a Client are refused or work: with a prefix that is accepted, everything in Redis
// has it, and an Inspector finds the lock again.
func FuzzClientOptionsOnMiniredis(f *testing.F) { fuzzClientOptions(f, redistest.Mini(f)) }

// FuzzClientOptionsOnRedis is the same with Redis' own patterns of keys.
func FuzzClientOptionsOnRedis(f *testing.F) { fuzzClientOptions(f, redistest.Redis(f)) }

func fuzzClientOptions(f *testing.F, s *redistest.Server) {
	const second = int64(time.Second)
	for _, prefix := range []string{
		"lockmw", "a:b", "*", "?", "[a]", "[^a]", `\`, `a\*`, "lockmw:fence", "~!'", strings.Repeat("p", 100),
		"", " ", "a b", "{", "a}", "é", "\xff", "\x7f", "\n", strings.Repeat("p", 101),
	} {
		f.Add(prefix, 32, 2*second, second/100, "item:1")
	}
	for _, n := range []int{0, 10_000, -1, 10_001} {
		f.Add("lockmw", n, 2*second, int64(0), "{*}")
	}
	for _, d := range []int64{int64(time.Millisecond), 60 * second, 0, int64(time.Millisecond) - 1, 60*second + 1, -second} {
		f.Add("lockmw", 32, d, int64(0), "\x00:queue")
	}
	for _, d := range []int64{0, 10 * second, -1, 10*second + 1} {
		f.Add("lockmw", 32, 2*second, d, "%7D[a]")
	}
	rdb := s.NewClient(f)
	f.Fuzz(func(t *testing.T, prefix string, passes int, unlock, margin int64, key string) {
		opts := []lockmw.ClientOption{
			lockmw.WithPrefix(prefix), lockmw.WithLocalPasses(passes),
			lockmw.WithUnlockTimeout(time.Duration(unlock)), lockmw.WithClockMargin(time.Duration(margin)),
		}
		valid := isPrefix(prefix) && passes >= 0 && passes <= 10_000 &&
			unlock >= int64(time.Millisecond) && unlock <= 60*second && margin >= 0 && margin <= 10*second
		c, err := lockmw.New(rdb, opts...)
		if !valid {
			if !errors.Is(err, lockmw.ErrInvalidOption) {
				t.Errorf("New: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		useClient(t, c, rdb, prefix, key, time.Duration(unlock))
	})
}

func isPrefix(prefix string) bool {
	return prefix != "" && len(prefix) <= 100 &&
		!strings.ContainsFunc(prefix, func(r rune) bool { return r <= ' ' || r > '~' || r == '{' || r == '}' })
}

func useClient(t *testing.T, c *lockmw.Client, rdb *redis.Client, prefix, key string, unlock time.Duration) {
	t.Helper()
	ctx := t.Context()
	rdb.FlushAll(ctx)
	_, hold, err := c.Lock(ctx, key, lockmw.WithLease(time.Minute))
	if key == "" || len(key) > 1024 {
		if !errors.Is(err, lockmw.ErrInvalidKey) {
			t.Errorf("Lock: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range rdb.Keys(ctx, "*").Val() {
		if !strings.HasPrefix(name, prefix+":") {
			t.Errorf("%q is not below %q", name, prefix)
		}
	}
	found := 0
	i := usertest.Inspector(t, rdb, lockmw.WithPrefix(prefix))
	for status, err := range i.All(ctx) {
		found++
		if err != nil || status.Key != key || len(status.Holders) != 1 || status.Holders[0].Token != hold.Token() {
			t.Errorf("the inspector finds %+v: %v", status, err)
		}
	}
	if found != 1 {
		t.Errorf("the inspector finds %d locks", found)
	}
	if err := hold.Unlock(); err != nil && (unlock > time.Second || !errors.Is(err, lockmw.ErrUnavailable)) {
		t.Errorf("Unlock: %v", err)
	}
}

// Foreign keys with the prefix of locks do not disturb the list of an Inspector.
func FuzzInspectorList(f *testing.F) {
	for _, name := range []string{"{}", "{}:queue", "{", "}", "{%7d}", "{%}", "{a}", "{a}:queue", "{a}:queue:queue", "fence", "{a}b}", "\x00{a}"} {
		f.Add(name)
	}
	s := redistest.Mini(f)
	rdb := s.NewClient(f)
	f.Fuzz(func(t *testing.T, name string) {
		ctx := t.Context()
		rdb.FlushAll(ctx)
		if err := rdb.Set(ctx, "lockmw:"+name, "a stranger's", 0).Err(); err != nil {
			t.Fatal(err)
		}
		i := usertest.Inspector(t, rdb)
		for status, err := range i.All(ctx) {
			if status.Key == "" || err == nil {
				t.Errorf("lockmw:%q is listed as %+v: %v", name, status, err)
			}
		}
	})
}
