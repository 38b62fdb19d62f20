package locklog_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lockmw/go/locklog"
	"github.com/lockmw/go/lockmw"
)

// logger logs to the standard output, without attributes that differ from run to run.
func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			switch strings.Join(append(groups, a.Key), ".") {
			case "time", "lock.waited", "lock.held", "holder.owner", "holder.since":
				return slog.Attr{}
			}
			return a
		},
	}))
}

// Two buyers want the same item. The lines of the second one name the first. A program would use lockmw.New instead of NewLocal,
// and the default threshold of 1 s.
func Example() {
	observer := locklog.New(logger(), locklog.WithSlowWait(10*time.Millisecond))
	locks := lockmw.NewLocal()
	ctx, key := context.Background(), lockmw.Key("item", "7")

	_, first, err := locks.Lock(ctx, key)
	if err != nil {
		fmt.Println(err)
		return
	}
	sold := lockmw.WithObserver(&lockmw.Observer{ // unlocks the first hold a while after the second buyer has come
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) {
			time.AfterFunc(700*time.Millisecond, func() { _ = first.Unlock() })
		},
	})

	_, second, err := locks.Lock(ctx, key, lockmw.WithObserver(observer), sold)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = second.Unlock()
	// Output:
	// level=WARN msg="lockmw: still waiting" lock.name=item lock.operation=lock lock.mode=exclusive lock.key=item:7 lock.position=1 lock.waiters=1 lock.holders=1 holder.process=local holder.token=1
	// level=WARN msg="lockmw: slow wait" lock.name=item lock.operation=lock lock.mode=exclusive lock.key=item:7 lock.token=2 lock.outcome=acquired lock.position=1 lock.waiters=1 lock.holders=1 holder.process=local holder.token=1
}

// The line of a lost hold, whose key must not appear in logs.
func ExampleWithKeyRedactor() {
	locks := lockmw.NewLocal(lockmw.WithObserver(locklog.New(logger(),
		locklog.WithKeyRedactor(func(string) string { return "REDACTED" }))))

	_, hold, err := locks.Lock(context.Background(), lockmw.Key("card", "4111-1111"))
	if err != nil {
		fmt.Println(err)
		return
	}
	locks.Expire("card:4111-1111") // as if the lease had expired
	fmt.Println(hold.Unlock() != nil)
	// Output:
	// level=ERROR msg="lockmw: lock lost" lock.name=card lock.operation=lock lock.mode=exclusive lock.key=REDACTED lock.token=1 error.type=lock_lost
	// true
}
