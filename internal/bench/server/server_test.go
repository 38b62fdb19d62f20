package server_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/lockmw/go/internal/bench/server"
	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redisserver"
	"github.com/lockmw/go/internal/test/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{})
	leak.VerifyMain(m.Run)
}

func client(t *testing.T, addr string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestStartedServerIsGoneAfterClose(t *testing.T) {
	redistest.Redis(t) // skips without a redis-server
	s, err := server.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rdb := client(t, s.Addr)
	if err := rdb.Set(t.Context(), "k", 1, 0).Err(); err != nil {
		t.Error(err)
	}
	if err := s.Clean(t.Context()); err != nil {
		t.Error(err)
	}
	if n := rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left after Clean", n)
	}
	if s.Version == "" {
		t.Error("the version is not known")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := server.Use(t.Context(), s.Addr); err == nil {
		t.Error("the server still runs")
	}
}

func TestAClusterIsGoneAfterClose(t *testing.T) {
	redistest.Redis(t) // skips without a redis-server
	s, err := server.StartCluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.Nodes})
	defer rdb.Close()
	before, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const keys = 30 // on all nodes
	for i := range keys {
		if err := rdb.Set(t.Context(), strconv.Itoa(i), 1, 0).Err(); err != nil {
			t.Error(err)
		}
	}
	if err := rdb.Publish(t.Context(), "c", "m").Err(); err != nil {
		t.Error(err)
	}
	after, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := after.Since(before)
	if d.Calls["set"] != keys || d.Calls["info"] != 0 || d.Calls["cluster|info"] != 0 || d.Bus != 2 {
		t.Errorf("%d messages between nodes, %v", d.Bus, d.Calls)
	}
	if err := s.Clean(t.Context()); err != nil {
		t.Error(err)
	}
	if n := rdb.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left after Clean", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := server.Use(t.Context(), s.Addr); err == nil {
		t.Error("a node still runs")
	}
}

func TestSeveralServersAreIndependent(t *testing.T) {
	redistest.Redis(t) // skips without a redis-server
	s, err := server.StartNodes(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	some := s.First(3, 1)
	before, err := some.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, addr := range some.Independent {
		alive := i < 2
		if err := client(t, addr).Set(t.Context(), "k", addr, 0).Err(); (err == nil) != alive {
			t.Errorf("server %d of 2 that are alive: %v", i+1, err)
		}
		if got := client(t, addr).Get(t.Context(), "k").Val(); alive && got != addr {
			t.Errorf("server %d has the value of %s", i+1, got)
		}
	}
	after, err := some.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := after.Since(before); d.Calls["set"] != 2 || d.Calls["info"] != 0 {
		t.Errorf("counted %v", d.Calls)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, addr := range s.Independent {
		if _, err := server.Use(t.Context(), addr); err == nil {
			t.Error("a server still runs")
		}
	}
}

func TestAnExternalServerIsNotChanged(t *testing.T) {
	theirs := redistest.Redis(t)
	rdb := theirs.NewClient(t)
	if err := rdb.Set(t.Context(), "k", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	s, err := server.Use(t.Context(), theirs.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Clean(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := rdb.DBSize(t.Context()).Val(); n != 1 {
		t.Errorf("%d keys are left of 1", n)
	}
}

func TestWithoutServerTheErrorHasARemedy(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for name, start := range map[string]func(context.Context) (*server.Server, error){"a server": server.Start, "a Cluster": server.StartCluster} {
		_, err := start(t.Context())
		if err == nil || !strings.Contains(err.Error(), "no "+redisserver.Program()+" on the PATH") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

func TestStatsSeparateCommandsOfClientsAndScripts(t *testing.T) {
	theirs := redistest.Redis(t)
	s, err := server.Use(t.Context(), theirs.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rdb := theirs.NewClient(t)
	if err := rdb.Ping(t.Context()).Err(); err != nil { // connects
		t.Fatal(err)
	}
	before, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	script := `redis.call('SET', KEYS[1], 1) redis.call('GET', KEYS[1]) redis.call('DEL', KEYS[1])`
	for range 3 {
		if err := rdb.Eval(t.Context(), script, []string{"k"}).Err(); err != nil && err != redis.Nil {
			t.Fatal(err)
		}
	}
	if err := rdb.Publish(t.Context(), "c", "m").Err(); err != nil {
		t.Fatal(err)
	}
	after, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := after.Since(before)
	if sent, also, all := d.Sent(nil), d.Sent([]string{"publish"}), d.All(); sent != 3 || also != 4 || all != 3*4+1 {
		t.Errorf("sent %d, with PUBLISH %d, of %d altogether; want 3, 4, 13: %v", sent, also, all, d.Calls)
	}
	if d.CPU < 0 || after.CPU <= 0 {
		t.Errorf("the processor time is %v of %v", d.CPU, after.CPU)
	}
}

func TestAHalvedServerRunsHalfOfTheTime(t *testing.T) {
	redistest.Redis(t) // skips without a redis-server
	s, err := server.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rdb := client(t, s.Addr)
	// busy returns the time that a script takes relative to its processor time.
	busy := func() float64 {
		before, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := rdb.Eval(t.Context(), "for i = 1, 100000000 do end return 1", nil).Err(); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begun)
		after, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return took.Seconds() / after.Since(before).CPU.Seconds()
	}
	whole, err := s.Halve(t.Context())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if ratio := busy(); ratio < 1.4 { // more on a busy machine
		t.Errorf("a script takes %v times its processor time", ratio)
	}
	whole()
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestAnExternalServerIsNotHalved(t *testing.T) {
	s, err := server.Use(t.Context(), redistest.Redis(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Halve(t.Context()); err == nil {
		t.Error("there is no error")
	}
}

func TestRelayDelaysAnswers(t *testing.T) {
	theirs := redistest.Redis(t)
	s, err := server.Use(t.Context(), theirs.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const delay = 20 * time.Millisecond
	relay, err := s.Relay(delay)
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Close()
	rdb := client(t, relay.Addr)
	if err := rdb.Ping(t.Context()).Err(); err != nil { // connects
		t.Fatal(err)
	}
	start := time.Now()
	if err := rdb.Ping(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < delay {
		t.Errorf("an answer took %v, want at least %v", took, delay)
	}
	if err := rdb.Close(); err != nil {
		t.Error(err)
	}
}

func TestTheLastPingCountsHoweverLateItsAnswerIs(t *testing.T) {
	theirs := redistest.Redis(t)
	s, err := server.Use(t.Context(), theirs.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := theirs.NewClient(t).Do(t.Context(), "CLIENT", "PAUSE", 300).Err(); err != nil {
		t.Fatal(err)
	}
	if latency, err := s.Ping(t.Context(), time.Hour).Stop(); err != nil || latency.Count() != 1 {
		t.Errorf("%d answers, and the error %v", latency.Count(), err)
	}
}
