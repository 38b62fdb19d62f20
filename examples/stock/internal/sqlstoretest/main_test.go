package sqlstoretest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

var cases = []struct {
	name string
	f    func(t *testing.T, d database)
}{
	{"random scripts", testRandomScripts},
	{"of simultaneous new runs one begins", testSimultaneousInserts},
	{"of simultaneous later runs one begins", testSimultaneousReplacements},
	{"a locked row is in flight", testLockedRow},
	{"a locked row does not stop other keys", testOtherKey},
	{"a record ends with its TTL", testTTL},
	{"an expired run does not commit", testExpiredCommit},
	{"a void run does not begin later", testVoid},
	{"an end may be repeated", testRepeatedEnd},
	{"effects happen once", testOnce},
	{"a commit wins over what follows", testCommitWins},
	{"a run that has committed is in flight until it returns", testCommitInFlight},
	{"Recover learns of a commit", testRecover},
	{"an answer that was found out is final", testFoundOut},
	{"a run that was replaced does not commit", testReplaced},
	{"a handler ignores ErrSuperseded", testIgnored},
	{"the handler's snapshot is older than the run", testOldSnapshot},
	{"the answer to COMMIT is lost", testLostCommit},
	{"a handler continues after an error", testDuplicate},
	{"Commit without its run", testNoRun},
	{"cleanup", testCleanup},
	{"cleanup next to a locked row", testCleanupLocked},
	{"errors have no key", testErrors},
	{"a run is killed or stopped between every two steps", testInterruptions},
	{"a storm", testStorm},
}

func TestOnEachDatabase(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.f(t, d) })
		}
	})
}

var someKey = idempotency.Key{Scope: "user-7", ID: "8e03978e-40d5-43dd-bc93-6894a57f9324"}

// client returns a Locker whose locks are in Redis.
func client(t *testing.T) lockmw.Locker {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	locks, err := lockmw.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() })
	return locks
}

// loose returns a Locker that gives each lock to all who ask, as if each holder but the last one had lost it without noticing.
func loose() lockmw.Locker {
	var tokens atomic.Int64
	return lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		held, hold := lockmw.NewHold(ctx, key, tokens.Add(1), func(context.Context) error { return nil })
		return held, hold, nil
	})
}

func isError(t *testing.T, err, want error) {
	t.Helper()
	if want == nil && err != nil || !errors.Is(err, want) {
		t.Errorf("the error is %v, want %v", err, want)
	}
}

func claim(run string, token int64) idempotency.Claim {
	return idempotency.Claim{Key: someKey.LockKey(), Run: run, Token: token, MaxSilent: 3, TTL: time.Hour}
}

// together begins n runs simultaneously, and returns those that have begun. Their names begin with name. token returns the token
// of a run.
func (b *testbed) together(name string, n int, over bool, token func(i int) int64) (begun []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			c := claim(fmt.Sprintf("%s-%d", name, i), token(i))
			c.Over = over
			rec, err := b.store.Begin(b.Context(), c)
			waits := isSQLite(b.database) // there a claim waits until the file is free
			if err != nil && !errors.Is(err, idempotency.ErrSuperseded) && (waits || !errors.Is(err, idempotency.ErrInFlight)) {
				b.Error(err)
			}
			if err == nil && rec.Run == c.Run && rec.State == idempotency.Open {
				mu.Lock()
				defer mu.Unlock()
				begun = append(begun, c.Run)
			}
		})
	}
	close(start)
	wg.Wait()
	return begun
}

func testSimultaneousInserts(t *testing.T, d database) {
	b := newTestbed(t, d)
	for range 5 {
		begun := b.together("new", 100, false, func(i int) int64 { return int64(i + 1) })
		rec, err := b.store.Look(t.Context(), someKey.LockKey())
		if len(begun) != 1 || err != nil || rec.Run != begun[0] {
			t.Errorf("the runs %q have begun; the record is of %q, %v", begun, rec.Run, err)
		}
		b.exec(`DELETE FROM ` + b.records)
	}
}

func testSimultaneousReplacements(t *testing.T, d database) {
	b := newTestbed(t, d)
	for round := range int64(5) {
		// All have the same token, so only the first one of a round begins.
		begun := b.together(fmt.Sprint(round), 30, true, func(int) int64 { return round + 1 })
		rec, err := b.store.Look(t.Context(), someKey.LockKey())
		if len(begun) != 1 || err != nil || rec.Run != begun[0] || rec.Earlier != int(round) {
			t.Errorf("round %d: the runs %q have begun; the record is %+v, %v", round, begun, rec, err)
		}
		if _, err := b.store.End(t.Context(), idempotency.End{Key: someKey.LockKey(), Run: rec.Run, Outcome: idempotency.Leave}); err != nil {
			t.Error(err)
		}
	}
}

func testLockedRow(t *testing.T, d database) {
	b := newTestbed(t, d)
	if _, err := b.store.Begin(t.Context(), claim("first", 1)); err != nil {
		t.Fatal(err)
	}
	store := b.impatient()
	unlock := b.lockRow(someKey.LockKey())
	begun := time.Now()
	c := claim("second", 2)
	c.Over = true
	_, err := store.Begin(t.Context(), c)
	isError(t, err, idempotency.ErrInFlight)
	isError(t, err, lockmw.ErrBusy)
	_, err = store.Begin(t.Context(), claim("second", 2)) // which would not change the row
	isError(t, err, idempotency.ErrInFlight)
	if errors.Is(store.Void(t.Context(), c.Key, "third"), nil) {
		t.Error("a run was made void in a locked row")
	}
	if waited := time.Since(begun); waited > 5*time.Second {
		t.Errorf("Begin and Void waited %v for the row", waited)
	}
	unlock()
	rec, err := store.Begin(t.Context(), c)
	if err != nil || rec.Run != "second" {
		t.Errorf("once the row is free: %+v, %v", rec, err)
	}
}

func testOtherKey(t *testing.T, d database) {
	if isSQLite(d) {
		t.Skip("SQLite has no locks of rows")
	}
	b := newTestbed(t, d)
	for _, key := range []string{"a", "z"} { // before and after the key
		if _, err := b.store.Begin(t.Context(), idempotency.Claim{Key: key, Run: "r", Token: 1, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		defer b.lockRow(key)()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	work := func(ctx context.Context) (string, error) { return "receipt", b.place(ctx, b.db, "tea") }
	once, noStock := b.runner(client(t)), errors.New("no stock")
	_, err := idempotency.Do(ctx, once, someKey, "", idempotency.RunAgain, func(context.Context, string) (string, error) { return "", noStock })
	isError(t, err, noStock)
	isError(t, b.store.Void(ctx, someKey.LockKey(), "other"), nil)
	_, err = idempotency.Do(ctx, once, someKey, "", idempotency.RunAgain, func(ctx context.Context, _ string) (string, error) { return work(ctx) })
	isError(t, err, nil)
	b.expire(someKey.LockKey())
	if n, err := b.store.Cleanup(ctx, 1); n != 1 || err != nil {
		t.Errorf("Cleanup deleted %d, %v", n, err)
	}
}

func testTTL(t *testing.T, d database) {
	b := newTestbed(t, d)
	c := claim("first", 1)
	c.TTL = 700 * time.Millisecond
	begun := time.Now()
	if _, err := b.store.Begin(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for {
		asked := time.Now()
		rec, err := b.store.Look(t.Context(), c.Key)
		if err != nil {
			t.Fatal(err)
		}
		if rec.State == idempotency.None {
			if early := c.TTL - time.Since(begun); early > 50*time.Millisecond {
				t.Errorf("the record has expired %v early", early)
			}
			break
		}
		if late := asked.Sub(begun) - c.TTL; late > 10*time.Second {
			t.Fatalf("the record is there %v too long", late)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if ok, err := b.store.End(t.Context(), idempotency.End{Key: c.Key, Run: c.Run, TTL: time.Hour}); ok || err != nil {
		t.Errorf("an expired run was recorded: %t, %v", ok, err)
	}
}

func testVoid(t *testing.T, d database) {
	b := newTestbed(t, d)
	for range 2 {
		isError(t, b.store.Void(t.Context(), someKey.LockKey(), "late"), nil)
	}
	_, err := b.store.Begin(t.Context(), claim("late", 1))
	isError(t, err, idempotency.ErrSuperseded)
	if _, err := b.store.Begin(t.Context(), claim("other", 2)); err != nil {
		t.Error(err)
	}
	_, err = b.store.Begin(t.Context(), claim("late", 3))
	isError(t, err, idempotency.ErrSuperseded)
	// A record that would expire sooner is kept for a minute.
	b.expire(someKey.LockKey())
	isError(t, b.store.Void(t.Context(), someKey.LockKey(), "late"), nil)
	_, err = b.store.Begin(t.Context(), claim("late", 3))
	isError(t, err, idempotency.ErrSuperseded)
}

func testRepeatedEnd(t *testing.T, d database) {
	for _, outcome := range []idempotency.Outcome{idempotency.Leave, idempotency.Keep} {
		b := newTestbed(t, d)
		if _, err := b.store.Begin(t.Context(), claim("first", 1)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			e := idempotency.End{Key: someKey.LockKey(), Run: "first", Outcome: outcome, TTL: time.Hour}
			if ok, err := b.store.End(t.Context(), e); !ok || err != nil {
				t.Errorf("End with outcome %d returned %t, %v", outcome, ok, err)
			}
		}
	}
}

func testCleanup(t *testing.T, d database) {
	b := newTestbed(t, d)
	b.fill(1300)
	for _, c := range []struct{ limit, deleted int }{{700, 700}, {1, 1}, {2000, 599}, {10, 0}} {
		if n, err := b.store.Cleanup(t.Context(), c.limit); n != c.deleted || err != nil {
			t.Errorf("Cleanup(%d) deleted %d, %v, want %d", c.limit, n, err, c.deleted)
		}
	}
	if n := b.count(b.records); n != 1 {
		t.Errorf("%d records are left, want the one that has not expired", n)
	}
	_, err := b.store.Cleanup(t.Context(), 0)
	isError(t, err, lockmw.ErrInvalidOption)
}

func testCleanupLocked(t *testing.T, d database) {
	if isSQLite(d) {
		t.Skip("SQLite has no locks of rows")
	}
	b := newTestbed(t, d)
	b.fill(1100)
	for _, key := range []string{"old-0003", "old-0777"} {
		defer b.lockRow(key)()
	}
	begun := time.Now()
	if n, err := b.store.Cleanup(t.Context(), 5000); n != 1098 || err != nil {
		t.Errorf("Cleanup deleted %d, %v, want 1098", n, err)
	}
	if waited := time.Since(begun); waited > 20*time.Second {
		t.Errorf("Cleanup waited %v for a row", waited)
	}
	if n := b.count(b.records); n != 3 {
		t.Errorf("%d records are left, want 3", n)
	}
}

// attempts are what runs noted of their attempts.
type attempts struct {
	mu  sync.Mutex
	all []int
}

func (a *attempts) note(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, idempotency.Attempt(ctx))
}

func (a *attempts) are(t *testing.T, want ...int) {
	t.Helper()
	if !slices.Equal(a.all, want) {
		t.Errorf("the attempts are %v, want %v", a.all, want)
	}
}
