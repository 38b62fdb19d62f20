package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
)

// A fleet is a group of servers. One of them can be replaced by a replica that lacks the last writes.
type fleet struct {
	redistest.Deployment

	flags         []string // flags of the example for this fleet
	master        func(key string) int
	replica       func(master int) int
	awaitPromoted func(key string, old int) int
}

// onSeveralServers runs test on a Cluster, and on a master with a replica and Sentinels.
func onSeveralServers(t *testing.T, test func(t *testing.T, f *fleet)) {
	t.Helper()
	suite.NeedsFull(t, "servers take seconds to agree on a new master")
	t.Parallel()
	t.Run("a Cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.NewCluster(t, 3, 1)
		test(t, &fleet{
			Deployment: c,
			flags:      []string{"-redis", strings.Join(c.Addrs()[:2], ",")},
			master:     c.Owner, replica: func(master int) int { return c.Replicas(master)[0] },
			awaitPromoted: c.AwaitPromoted,
		})
	})
	t.Run("Sentinels", func(t *testing.T) {
		t.Parallel()
		s := redistest.NewSentinel(t, 1, 1) // several of them may need a second vote, for which the rush is too short
		test(t, &fleet{
			Deployment: s,
			flags:      []string{"-redis", strings.Join(s.Addrs(), ","), "-sentinel-master", redistest.MasterName},
			master:     func(string) int { return s.Master() }, replica: func(master int) int { return 1 - master },
			awaitPromoted: func(_ string, old int) int { return s.AwaitPromoted(old) },
		})
	})
}

// cutOff stops the replication from the master of a key's slot. The returned function kills the master and waits until the
// replica has replaced it.
func (f *fleet) cutOff(t *testing.T, key string) (kill func()) {
	t.Helper()
	master := f.master(key)
	replica := f.Servers()[f.replica(master)]
	replica.Pause(t)
	rdb := f.Servers()[master].NewClient(t)
	if err := rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "replica").Err(); err != nil {
		t.Fatal(err)
	}
	mark := "mark:{" + key + "}"
	if err := rdb.Set(t.Context(), mark, "", 0).Err(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		f.Servers()[master].Kill()
		replica.Resume(t)
		promoted := f.Servers()[f.awaitPromoted(key, master)]
		if err := promoted.NewClient(t).Get(t.Context(), mark).Err(); err != redis.Nil {
			t.Fatalf("the new master lacks nothing: %v", err)
		}
	}
}

// A sale continues after a master is lost with tasks and locks, and breaks no promise.
func TestASaleSurvivesTheLossOfAMasterWithItsData(t *testing.T) {
	onSeveralServers(t, func(t *testing.T, f *fleet) {
		args := slices.Concat(f.flags, []string{"-users", "1500", "-clicks", "3", "-stock", "200", "-rush", "15s", "-json"})
		stderr := &progress{lines: make(chan string, 1000)}
		var stdout bytes.Buffer
		exit := make(chan int, 1)
		go func() { exit <- run(t.Context(), args, &stdout, stderr) }()

		begun := stderr.await(t, exit, 0)
		kill := f.cutOff(t, saleIn(t, f))
		stderr.await(t, exit, begun)
		kill()
		select {
		case code := <-exit:
			t.Fatalf("the sale ended before the master was replaced: exit status %d\n%s%s", code, &stdout, stderr)
		default:
		}
		if code := <-exit; code != exitOK {
			t.Fatalf("exit status %d\n%s%s", code, &stdout, stderr)
		}
		t.Logf("%s%s", stderr, &stdout)

		var sales map[string]map[string]float64
		lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sales); err != nil {
			t.Fatal(err)
		}
		locked := sales["locked"]
		for _, name := range []string{"oversold", "duplicate_orders", "lost_orders", "shipped_twice"} {
			if n, ok := locked[name]; !ok || n != 0 {
				t.Errorf("%s is %v, want 0", name, n)
			}
		}
		if locked["requests"] != 4500 || locked["accepted"] < 100 || locked["shipped"] < locked["accepted"] {
			t.Errorf("figures of the sale: %v", locked)
		}
	})
}

// saleIn returns the name of the sale's queue.
func saleIn(t *testing.T, f *fleet) string {
	t.Helper()
	names, err := f.Universal(t).SMembers(t.Context(), "asynq:queues").Result()
	if err != nil || len(names) != 1 {
		t.Fatalf("queues are %v, %v", names, err)
	}
	return names[0]
}

// progress is a standard error from which a test reads the progress of the sale.
type progress struct {
	usertest.Output
	lines chan string
}

func (p *progress) Write(text []byte) (int, error) {
	select {
	case p.lines <- string(text):
	default:
	}
	return p.Output.Write(text)
}

// await waits until the sale with locks has made more deliveries than before, and returns their number.
func (p *progress) await(t *testing.T, exit chan int, before int) int {
	t.Helper()
	for {
		select {
		case line := <-p.lines:
			var answered, clicks, delivered, announced int
			const format = "with locks: %d of %d clicks answered, %d of %d deliveries made"
			_, err := fmt.Sscanf(line, format, &answered, &clicks, &delivered, &announced)
			switch {
			case err != nil || delivered <= before:
			case answered == clicks:
				t.Fatal("all clicks are answered already")
			default:
				return delivered
			}
		case code := <-exit:
			t.Fatalf("exit status %d\n%s", code, p)
		}
	}
}
