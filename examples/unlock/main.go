// Unlock shows who has a lock and who waits for it, and can take it away. Without a key it lists all.
//
//	go run ./examples/unlock -redis localhost:6379
//	go run ./examples/unlock -redis localhost:6379 user:42
//	go run ./examples/unlock -redis rediss://oncall:secret@redis.internal:6379/0 -force 1795358195100824 user:42
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
)

func main() {
	addr := flag.String("redis", "localhost:6379", "host:port, or redis://user:password@host:port/db, or rediss://… for TLS")
	prefix := flag.String("prefix", "lockmw", "of the locks: what WithPrefix says")
	force := flag.Int64("force", 0, "release the hold with this token")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *addr, *prefix, flag.Arg(0), *force); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, addr, prefix, key string, force int64) error {
	options := &redis.Options{Addr: addr}
	if strings.Contains(addr, "://") {
		parsed, err := redis.ParseURL(addr)
		if err != nil {
			return fmt.Errorf("-redis: %w", err)
		}
		options = parsed
	}
	rdb := redis.NewClient(options)
	defer rdb.Close()
	inspector, err := lockmw.NewInspector(rdb, lockmw.WithPrefix(prefix))
	if err != nil {
		return err
	}
	if key == "" {
		found, err := showAll(ctx, out, inspector)
		if !found && err == nil {
			fmt.Fprintln(out, "no locks with the prefix", prefix)
			err = showPrefixes(ctx, out, inspector, prefix)
		}
		return err
	}
	status, err := inspector.Get(ctx, key)
	if err != nil {
		return err
	}
	if status.Kept, err = inspector.Kept(ctx, key); err != nil {
		return err
	}
	show(out, status)
	if len(status.Holders)+len(status.Waiters)+len(status.Kept) == 0 {
		if err := showPrefixes(ctx, out, inspector, prefix); err != nil {
			return err
		}
	}
	if force == 0 {
		return nil
	}
	released := 0
	for _, h := range status.Holders { // readers share a token
		if h.Token != force {
			continue
		}
		if err := inspector.ForceUnlock(ctx, key, h); err != nil {
			return err
		}
		released++
		fmt.Fprintln(out, "released", h.Owner)
	}
	if released == 0 {
		return fmt.Errorf("no holder of %s has the token %d", key, force)
	}
	return nil
}

// showAll shows every lock, and reports whether there is one. A key that cannot be read does not keep the others from
// being shown.
func showAll(ctx context.Context, out io.Writer, inspector *lockmw.Inspector) (found bool, failed error) {
	for status, err := range inspector.All(ctx) {
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		found = true
		show(out, status)
	}
	return found, failed
}

// showPrefixes shows under which other prefixes locks have been taken: whoever sees no lock may look in the wrong place.
func showPrefixes(ctx context.Context, out io.Writer, inspector *lockmw.Inspector, prefix string) error {
	prefixes, err := inspector.Prefixes(ctx)
	if err != nil {
		return err
	}
	for _, p := range prefixes {
		if p != prefix {
			fmt.Fprintf(out, "  there have been locks with the prefix %s: see -prefix\n", p)
		}
	}
	return nil
}

func show(out io.Writer, s lockmw.Status) {
	held := 0
	for _, h := range s.Holders {
		if !h.Lingers {
			held++
		}
	}
	fmt.Fprintf(out, "%s: %d hold, %d wait\n", s.Key, held, s.Waiting())
	for _, h := range s.Holders {
		ends := "lease ends in"
		if h.Lingers { // WithMinHold
			ends = "unlocked, kept taken for"
		}
		fmt.Fprintf(out, "  %-10s %s  token %d  since %s  %s %v%s\n",
			s.Mode, h.Process, h.Token, h.Since.Format(time.TimeOnly), ends, h.TTL.Round(time.Second), labelled(h.Label))
	}
	for _, w := range s.Waiters {
		since := "behind the holder"
		if w.Ticket != "" {
			since = "since " + w.Since.Format(time.TimeOnly)
		}
		fmt.Fprintf(out, "  waits      %s  %s  %s%s%s\n", w.Process, w.Mode, since, counted(w.Calls), labelled(w.Label))
	}
	for _, k := range s.Kept {
		fmt.Fprintf(out, "  away       %s  place since %s, kept for %v\n", k.Name, k.Since.Format(time.TimeOnly), k.TTL.Round(time.Second))
	}
}

// counted is what is shown of how many calls one line stands for.
func counted(calls int) string {
	if calls == 1 {
		return ""
	}
	return fmt.Sprintf("  %d calls", calls)
}

// labelled is what is shown of a label, which most often is the id of a request or a task.
func labelled(label string) string {
	if label == "" {
		return ""
	}
	return "  for " + label
}
