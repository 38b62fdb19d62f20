// The command lockpath prints the main path of a lock, from a call of Lock for a held key until the call has its hold. It also
// prints how many functions of this module run in that time:
//
//	go run ./internal/test/lockpath
//
// It builds itself from copies of the module's files, in which each function records that it runs. The holder uses no code of
// this module: a bare redis client sends its release.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/lockpath/note"
	"github.com/lockmw/go/internal/transport"
	"github.com/lockmw/go/lockmw"
)

const (
	module  = "github.com/lockmw/go/"
	here    = module + "internal/test/lockpath"
	fileEnv = "LOCKMW_LOCKPATH_FILE"
)

func main() {
	log.SetFlags(0)
	if file := os.Getenv(fileEnv); file != "" {
		check(lock(context.Background(), file))
		return
	}
	check(printPath())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// printPath builds this program with functions that record their calls, runs it, and prints the result.
func printPath() error {
	dir, err := os.MkdirTemp("", "lockpath")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := instrument(dir)
	if err != nil {
		return err
	}
	program, file := filepath.Join(dir, "program"), filepath.Join(dir, "entries.json")
	run := exec.Command(program)
	run.Env = append(os.Environ(), fileEnv+"="+file)
	for _, c := range []*exec.Cmd{exec.Command("go", "build", "-overlay", overlay, "-o", program, here), run} {
		c.Stderr = os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var entries []note.Entry
	if err := json.Unmarshal(text, &entries); err != nil {
		return err
	}
	return show(entries)
}

// lock takes two locks that are held. Only the second one counts: by then the server knows the scripts, and the process is
// subscribed.
func lock(ctx context.Context, file string) error {
	server, err := miniredis.Run()
	if err != nil {
		return err
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	client, err := lockmw.New(rdb)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	if err := lockBusy(ctx, rdb, client, "user:1", 1); err != nil {
		return err
	}
	note.Count()
	if err := lockBusy(ctx, rdb, client, "user:42", 2); err != nil {
		return err
	}
	return note.Write(file)
}

// lockBusy takes the nth lock. A bare redis client holds it, and releases it once the call waits and is subscribed. The message of
// that is read when lockBusy returns, even if a poll was granted the lock before.
func lockBusy(ctx context.Context, rdb *redis.Client, client *lockmw.Client, key string, nth int) error {
	layout := script.NewLayout("lockmw", transport.Topology{})
	keys := layout.KeySet(key)
	if err := rdb.HSet(ctx, keys.Holder(), "id", "other.1", "token", 1, "owner", "other", "inbox", "lockmw:inbox:other:1:1").Err(); err != nil {
		return err
	}
	if err := rdb.PExpire(ctx, keys.Holder(), time.Minute).Err(); err != nil {
		return err
	}
	got := make(chan error, 1)
	go func() {
		_, _, err := client.Lock(ctx, key)
		got <- err
	}()
	waits := func() bool {
		return note.Calls("internal/localq/waiter.go", "Waiter.Limit") == nth && note.Calls("internal/inbox/inboxes.go", "Inboxes.confirmed") > 0
	}
	for !waits() {
		time.Sleep(time.Millisecond)
	}
	set := script.NewSet(script.DefaultParams(true))
	five := []string{keys.Holder(), keys.Queue(), keys.Tickets(), keys.Fence(), keys.ReadQueue()}
	if err := rdb.Eval(ctx, set.All()["release"].Source, five, "other.1").Err(); err != nil {
		return err
	}
	if err := <-got; err != nil {
		return err
	}
	for note.Calls("internal/script/message.go", "ParseMessage") < nth {
		time.Sleep(time.Millisecond)
	}
	return nil
}
