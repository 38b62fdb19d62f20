// The command lockpath prints which functions of this module run from the call of Lock for a key that is taken until the call has
// its hold, by files:
//
//	go run ./internal/test/lockpath
//
// It builds itself with coverage, and counts only during that call. The holder is no code of this module: its release is sent
// with a bare redis client.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/coverage"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/lockmw"
)

const (
	module = "github.com/lockmw/go/"
	dirEnv = "LOCKMW_LOCKPATH_DIR"
	key    = "user:42"
)

func main() {
	log.SetFlags(0)
	if dir := os.Getenv(dirEnv); dir != "" {
		check(lock(context.Background(), dir))
		return
	}
	check(printPath())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// printPath builds this program with coverage, runs it, and prints what was covered.
func printPath() error {
	dir, err := os.MkdirTemp("", "lockpath")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, data := filepath.Join(dir, "lockpath"), filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg="+module+"lockmw,"+module+"internal/...", "-o", program,
		module+"internal/test/lockpath")
	run := exec.Command(program)
	run.Env = append(os.Environ(), dirEnv+"="+data, "GOCOVERDIR="+dir)
	for _, c := range []*exec.Cmd{build, run} {
		c.Stderr = os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	covered, err := exec.Command("go", "tool", "covdata", "func", "-i="+data).Output()
	if err != nil {
		return err
	}
	show(covered)
	return nil
}

// show prints functions that were covered, of which covdata has lines such as "path/file.go:12: function 100.0%".
func show(covered []byte) {
	byFile, functions := make(map[string][]string), 0
	for line := range bytes.Lines(covered) {
		fields := strings.Fields(string(line))
		if len(fields) != 3 || fields[2] == "0.0%" || strings.Contains(fields[0], "/internal/test/") {
			continue
		}
		file, _, _ := strings.Cut(strings.TrimPrefix(fields[0], module), ":")
		if file == "total" {
			continue
		}
		byFile[file] = append(byFile[file], fields[1])
		functions++
	}
	var files []string
	for file := range byFile {
		files = append(files, file)
	}
	slices.Sort(files)
	for _, file := range files {
		fmt.Printf("%3d  %s: %s\n", len(byFile[file]), file, strings.Join(byFile[file], ", "))
	}
	fmt.Printf("%d functions in %d files\n", functions, len(files))
}

// lock takes a lock that somebody else has, and notes what runs meanwhile.
func lock(ctx context.Context, dir string) error {
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
	layout := script.NewLayout("lockmw", false)
	keys := layout.KeySet(key)
	set := script.NewSet(script.DefaultParams(true))
	if err := rdb.HSet(ctx, keys.Holder(), "id", "other.1", "token", 1, "owner", "other", "inbox", "lockmw:inbox:other:1:1").Err(); err != nil {
		return err
	}
	if err := rdb.PExpire(ctx, keys.Holder(), time.Minute).Err(); err != nil {
		return err
	}
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	got := make(chan error, 1)
	go func() {
		_, _, err := client.Lock(ctx, key)
		got <- err
	}()
	for rdb.ZCard(ctx, keys.Queue()).Val() == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // it subscribes, and polls once
	release := set.All()["release"]
	five := []string{keys.Holder(), keys.Queue(), keys.Tickets(), keys.Fence(), keys.ReadQueue()}
	if err := rdb.Eval(ctx, release.Source, five, "other.1").Err(); err != nil {
		return err
	}
	if err := <-got; err != nil {
		return err
	}
	if err := coverage.WriteMetaDir(dir); err != nil {
		return err
	}
	return coverage.WriteCountersDir(dir)
}
