package locklog_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/locklog"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

// The kinds of lock on a server, by mode.
var kinds = map[string]func(*lockmw.Client) lockmw.Locker{
	"exclusive": func(c *lockmw.Client) lockmw.Locker { return c },
	"fair":      func(c *lockmw.Client) lockmw.Locker { return fairlock.New(c) },
	"write":     func(c *lockmw.Client) lockmw.Locker { return rwlock.New(c) },
	"read":      func(c *lockmw.Client) lockmw.Locker { return rwlock.New(c).RLocker() },
}

// The waiter's line names the holder, of its own process or of another.
func TestTheHolderIsNamedForEveryKindOfLock(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		ours, theirs := usertest.Client(t, s), usertest.Client(t, s)
		for mode, kind := range kinds {
			for where, holder := range map[string]*lockmw.Client{"same client": ours, "another client": theirs} {
				t.Run(mode+"/"+where, func(t *testing.T) {
					testHolderNamed(t, kind(ours), rwlock.New(holder), mode)
				})
			}
		}
	})
}

func TestTheHolderIsNamedForALocal(t *testing.T) {
	local := lockmw.NewLocal()
	testHolderNamed(t, local, local, "exclusive")
	testHolderNamed(t, local.RLocker(), local, "read")
}

func testHolderNamed(t *testing.T, waiter, holder lockmw.Locker, mode string) {
	key := lockmw.Key("item", t.Name(), mode)
	j := newJournal(t, locklog.WithSlowWait(0), locklog.WithLongHold(0))
	_, hold := usertest.Lock(t, t.Context(), holder, key, storing(valid))
	contended, waits := usertest.OnContended(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		waits()
		usertest.Unlock(t, hold)
	})
	_, own := usertest.Lock(t, t.Context(), waiter, key, lockmw.WithObserver(j.observer), contended)
	usertest.Unlock(t, own)
	wg.Wait()

	lines := j.messages(slowWait, longHold)
	for _, l := range lines {
		l.want(t, line{"lock.name": "item", "lock.mode": mode, "lock.key": key, "lock.token": own.Token()})
	}
	l := lines[0]
	l.want(t, line{"lock.outcome": "acquired", "lock.holders": 1, "holder.token": hold.Token(), "holder.trace_id": validTrace})
	for _, name := range []string{"holder.owner", "holder.process"} {
		if s, _ := l[name].(string); s == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if since, err := time.Parse(time.RFC3339Nano, l["holder.since"].(string)); err != nil || time.Since(since).Abs() > time.Minute {
		t.Errorf("holder.since is %v", l["holder.since"])
	}
}

func TestATryNamesTheHolderInAnotherClient(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		j := newJournal(t, locklog.WithSlowWait(0))
		ours, theirs := usertest.Client(t, s, lockmw.WithObserver(j.observer)), usertest.Client(t, s)
		_, hold := usertest.Lock(t, t.Context(), theirs, "item:7")
		if _, _, err := ours.TryLock(t.Context(), "item:7"); !errors.Is(err, lockmw.ErrBusy) {
			t.Fatal(err)
		}
		usertest.Unlock(t, hold)
		j.messages(slowWait)[0].want(t, line{
			"lock.operation": "try_lock", "lock.outcome": "not_acquired", "holder.token": hold.Token(),
			"error.type": "lock_not_acquired",
		})
	})
}

// Error messages of a server may contain the key; so may errors of the lock itself.
func TestNoKeyIsShownThatIsRedacted(t *testing.T) {
	const marker = "4111-1111"
	for name, redact := range map[string]func(string) string{
		"replaced": func(string) string { return "REDACTED" },
		"nothing":  func(string) string { return "" },
		"panic":    func(key string) string { panic("no hash for " + key) },
	} {
		t.Run(name, func(t *testing.T) {
			usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
				j := newJournal(t, locklog.WithKeyRedactor(redact), locklog.WithSlowWait(0), locklog.WithLongHold(0))
				c := usertest.Client(t, s, lockmw.WithObserver(j.observer), lockmw.WithFixedLease(5*time.Second))
				key := lockmw.Key("card", marker)
				_, hold := usertest.Lock(t, t.Context(), c, key)
				if _, _, err := c.TryLock(t.Context(), key); !errors.Is(err, lockmw.ErrBusy) {
					t.Error(err)
				}
				usertest.Unlock(t, hold)
				ctx, _ := usertest.Lock(t, t.Context(), c, key)
				lost(ctx)
				_, hold = usertest.Lock(t, t.Context(), c, key)
				s.Mini.SetError("ERR proxy: cannot route " + key)
				if err := hold.Unlock(); err == nil || !strings.Contains(err.Error(), marker) {
					t.Fatalf("releasing: %v, want an error with the key", err)
				}
				usertest.Lock(t, t.Context(), c, "open:"+marker, lockmw.WithFailOpen())
				s.Mini.SetError("")

				h := newScript(j.observer)
				h.Key = key
				h.Acquired(lockmw.Acquisition{})
				h.Renewed(&lockmw.Error{Op: "renew", Key: key, Err: errors.New("ERR no such slot: " + key)})

				if strings.Contains(j.String(), marker) {
					t.Errorf("the key is shown:\n%s", j)
				}
				var seen []string
				for _, l := range j.lines() {
					seen = append(seen, l.message())
					shown := map[string]any{"replaced": "REDACTED", "nothing": nil, "panic": "!PANIC"}[name]
					l.want(t, line{"lock.key": shown, "error.message": nil})
				}
				for _, message := range []string{slowWait, longHold, lockLost, releaseFailed, failedOpen, renewalFailed} {
					if !slices.Contains(seen, message) {
						t.Errorf("%q was not logged", message)
					}
				}
			})
		})
	}
}

func TestAKeyIsShownAsTheRedactorHasIt(t *testing.T) {
	calls := 0
	j := newJournal(t, locklog.WithLongHold(0), locklog.WithKeyRedactor(func(key string) string {
		calls++
		return "<" + key + ">"
	}))
	_, hold := usertest.Lock(t, context.Background(), j.local(), "item:7")
	if calls != 0 {
		t.Errorf("the redactor was called %d times with nothing to say", calls)
	}
	usertest.Unlock(t, hold)
	j.messages(longHold)[0].want(t, line{"lock.key": "<item:7>"})
}
