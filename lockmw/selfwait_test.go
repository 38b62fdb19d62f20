package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

// stallHint is what the error of a call says that waited for its own process.
const stallHint = "this process itself has held it since"

// eachLocker runs test for every kind of lock, in a bubble; log returns what the Client has logged.
func eachLocker(t *testing.T, test func(t *testing.T, hold, wait lockmw.Locker, log func() string)) {
	t.Helper()
	over := map[string]func(c *lockmw.Client) (hold, wait lockmw.Locker){
		"plain":                      func(c *lockmw.Client) (hold, wait lockmw.Locker) { return c, c },
		"fair":                       func(c *lockmw.Client) (hold, wait lockmw.Locker) { l := fairlock.New(c); return l, l },
		"fair behind plain":          func(c *lockmw.Client) (hold, wait lockmw.Locker) { return c, fairlock.New(c) },
		"plain behind fair":          func(c *lockmw.Client) (hold, wait lockmw.Locker) { return fairlock.New(c), c },
		"writing behind reading":     func(c *lockmw.Client) (hold, wait lockmw.Locker) { return rwlock.New(c).RLocker(), rwlock.New(c) },
		"reading behind writing":     func(c *lockmw.Client) (hold, wait lockmw.Locker) { return rwlock.New(c), rwlock.New(c).RLocker() },
		"Local":                      nil,
		"Local, reading for writing": nil,
	}
	for name, lockers := range over {
		t.Run(name, func(t *testing.T) {
			usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
				if lockers == nil {
					log, l := usertest.DefaultLog(t), lockmw.NewLocal()
					if strings.Contains(name, "reading") {
						test(t, l, l.RLocker(), log.String)
					} else {
						test(t, l, l, log.String)
					}
					return
				}
				var log usertest.Output
				hold, wait := lockers(usertest.Client(t, s, lockmw.WithLogger(log.Logger())))
				test(t, hold, wait, log.String)
			})
		})
	}
}

func TestACallThatWaitsForItselfIsLoggedOnceAndSaysSo(t *testing.T) {
	eachLocker(t, func(t *testing.T, hold, wait lockmw.Locker, log func() string) {
		_, held := usertest.Lock(t, t.Context(), hold, "user:42")
		begun := time.Now()
		for range 2 {
			err := forgetTheContext(t.Context(), wait)
			if !errors.Is(err, lockmw.ErrBusy) || !strings.Contains(err.Error(), stallHint) {
				t.Errorf("the error does not say who the holder is: %v", err)
			}
		}
		var lines []string
		for line := range strings.Lines(log()) {
			if strings.Contains(line, "its own process holds") {
				lines = append(lines, line)
			}
		}
		if len(lines) != 1 {
			t.Fatalf("logged %d lines: %q", len(lines), lines)
		}
		for _, want := range []string{"user:42", "lockmw_test.forgetTheContext", "selfwait_test.go", "lockmw_test.TestACallThatWaits", "holder.since", "holder.token"} {
			if !strings.Contains(lines[0], want) {
				t.Errorf("%q lacks %q", lines[0], want)
			}
		}
		at, err := time.Parse(time.RFC3339, strings.TrimPrefix(strings.Fields(lines[0])[0], "time="))
		if err != nil || at.Sub(begun) < time.Second || at.Sub(begun) > 1300*time.Millisecond {
			t.Errorf("logged %v after the call: %v", at.Sub(begun), err)
		}
		usertest.Unlock(t, held)
	})
}

// Missing facts are left out: labels, where the holder took the lock, or the caller of the first function of a goroutine.
func TestTheLineOfAStallSaysWhatIsKnown(t *testing.T) {
	for _, known := range []bool{false, true} {
		eachLocker(t, func(t *testing.T, hold, wait lockmw.Locker, log func() string) {
			var holder, waiter []lockmw.Option
			if known {
				holder = []lockmw.Option{lockmw.WithStacks(), lockmw.WithLabel("req-7")}
				waiter = []lockmw.Option{lockmw.WithLabel("req-8")}
			}
			_, held, err := takeTheLock(t.Context(), hold, holder...)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go waitFirstThing(t.Context(), wait, done, waiter...)
			<-done
			for attribute, want := range map[string]bool{
				"label=req-8": known, "holder.label=req-7": known, "label=": known, "waitFirstThing": true, " called_by=": false,
				`holder.taken_by="github.com/lockmw/go/lockmw_test.takeTheLock (selfwait_test.go:`: known,
			} {
				if got := strings.Contains(log(), attribute); got != want {
					t.Errorf("with stacks and labels %t, %q is there: %t, in %s", known, attribute, got, log())
				}
			}
			usertest.Unlock(t, held)
		})
	}
}

func waitFirstThing(ctx context.Context, l lockmw.Locker, done chan<- struct{}, opts ...lockmw.Option) {
	_, _, _ = l.Lock(ctx, "user:42", append(opts, lockmw.WithWait(5*time.Second))...)
	close(done)
}

//go:noinline
func takeTheLock(ctx context.Context, l lockmw.Locker, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.Lock(ctx, "user:42", opts...)
}

//go:noinline
func forgetTheContext(ctx context.Context, l lockmw.Locker) error {
	_, _, err := l.Lock(ctx, "user:42", lockmw.WithWait(5*time.Second))
	return err
}

func TestManyCallsThatWaitForTheirProcessHaveOneLine(t *testing.T) {
	eachLocker(t, func(t *testing.T, hold, wait lockmw.Locker, log func() string) {
		waitForAll := func(from, to int) {
			var wg sync.WaitGroup
			for i := from; i < to; i++ {
				key := fmt.Sprint("user:", i)
				_, held := usertest.Lock(t, t.Context(), hold, key)
				wg.Go(func() {
					if _, _, err := wait.Lock(t.Context(), key, lockmw.WithWait(2*time.Second)); !errors.Is(err, lockmw.ErrBusy) {
						t.Error(err)
					}
					usertest.Unlock(t, held)
				})
			}
			wg.Wait()
		}
		waitForAll(0, 50)
		if n := strings.Count(log(), "its own process holds"); n != 1 {
			t.Errorf("50 calls have %d lines, want one", n)
		}
		time.Sleep(10 * time.Second) // of the bubble's time
		waitForAll(50, 51)
		if n := strings.Count(log(), "its own process holds"); n != 2 || !strings.Contains(log(), "suppressed=49") {
			t.Errorf("%d lines, want a second one that counts 49 others: %s", n, log())
		}
	})
}

// A queue that moves on is no sign of a mistake, and neither is a short wait.
func TestAWaitForSeveralHoldersIsNoStall(t *testing.T) {
	eachLocker(t, func(t *testing.T, hold, wait lockmw.Locker, log func() string) {
		_, held := usertest.Lock(t, t.Context(), hold, "user:42")
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				err := lockmw.Do(t.Context(), wait, "user:42", func(context.Context) error {
					time.Sleep(900 * time.Millisecond)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(900 * time.Millisecond) // of the bubble's time
		usertest.Unlock(t, held)
		wg.Wait()
		if got := log(); strings.Contains(got, "its own process holds") {
			t.Errorf("logged %q", got)
		}
	})
}

func TestAWaitForAnotherProcessIsNoStall(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, server *redistest.Server) {
		clients, log := twoClients(t, server)
		rdb := server.NewClient(t)
		if err := rdb.HSet(t.Context(), "lockmw:{user:42}", "id", "x.1", "owner", "5cdc", "token", "1795358195100824",
			"inbox", "lockmw:inbox:web-1:3716:fece06ae").Err(); err != nil {
			t.Fatal(err)
		}
		if err := rdb.PExpire(t.Context(), "lockmw:{user:42}", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if err := forgetTheContext(t.Context(), clients[0]); !errors.Is(err, lockmw.ErrBusy) || strings.Contains(err.Error(), stallHint) {
			t.Errorf("got %v", err)
		}
		if got := log.String(); strings.Contains(got, "its own process holds") {
			t.Errorf("logged %q", got)
		}
	})
}

// Clients of one process do not re-enter one another's locks, so that this mistake is an easy one.
func TestAWaitForAnotherClientOfTheProcessSaysSo(t *testing.T) {
	for name, over := range map[string]func(c *lockmw.Client) (hold, wait lockmw.Locker){
		"plain":                  func(c *lockmw.Client) (hold, wait lockmw.Locker) { return c, c },
		"fair":                   func(c *lockmw.Client) (hold, wait lockmw.Locker) { l := fairlock.New(c); return l, l },
		"writing behind reading": func(c *lockmw.Client) (hold, wait lockmw.Locker) { return rwlock.New(c).RLocker(), rwlock.New(c) },
		"reading behind plain":   func(c *lockmw.Client) (hold, wait lockmw.Locker) { return c, rwlock.New(c).RLocker() },
	} {
		t.Run(name, func(t *testing.T) {
			usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
				clients, log := twoClients(t, s)
				hold, _ := over(clients[0])
				_, wait := over(clients[1])
				_, held := usertest.Lock(t, t.Context(), hold, "user:42", lockmw.WithLabel("req-7"))
				for range 2 {
					if err := forgetTheContext(t.Context(), wait); !errors.Is(err, lockmw.ErrBusy) || !strings.Contains(err.Error(), stallHint) {
						t.Errorf("got %v", err)
					}
				}
				if got := log.String(); strings.Count(got, "its own process holds") != 1 || !strings.Contains(got, "holder.label=req-7") {
					t.Errorf("logged %q", got)
				}
				usertest.Unlock(t, held)
			})
		})
	}
}

// twoClients returns Clients of one server, and what they log.
func twoClients(t *testing.T, server *redistest.Server) ([]*lockmw.Client, *usertest.Output) {
	t.Helper()
	log := &usertest.Output{}
	logged := lockmw.WithLogger(log.Logger())
	return []*lockmw.Client{usertest.Client(t, server, logged), usertest.Client(t, server, logged)}, log
}
