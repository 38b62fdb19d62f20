package locklog_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/lockmw/go/locklog"
	"github.com/lockmw/go/lockmw"
)

// logger logs to w, without attributes that differ from run to run.
func logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			switch strings.Join(append(groups, a.Key), ".") {
			case "time", "lock.waited", "lock.held", "holder.owner", "holder.since":
				return slog.Attr{}
			}
			return a
		},
	}))
}

// A notice writes to the standard output, and calls then after the first line.
type notice struct {
	then func()
	once sync.Once
}

func (n *notice) Write(line []byte) (int, error) {
	defer n.once.Do(n.then)
	return os.Stdout.Write(line)
}

// Two buyers want the same item. The lines of the second one name the first, who sells it as soon as the second is known to wait. A
// program would use lockmw.New instead of NewLocal.
func Example() {
	locks := lockmw.NewLocal()
	ctx, key := context.Background(), lockmw.Key("item", "7")

	_, first, err := locks.Lock(ctx, key)
	if err != nil {
		fmt.Println(err)
		return
	}
	observer := locklog.New(logger(&notice{then: func() { _ = first.Unlock() }}))

	_, second, err := locks.Lock(ctx, key, lockmw.WithObserver(observer))
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
	locks := lockmw.NewLocal(lockmw.WithObserver(locklog.New(logger(os.Stdout),
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
