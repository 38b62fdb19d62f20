package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

func TestMain(m *testing.M) {
	suite.Begin()
	leak.VerifyMain(m.Run)
}

func TestServersAnswer(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		rdb := s.NewClient(t)
		if err := rdb.Set(t.Context(), "prefix:a", 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if err := rdb.Set(t.Context(), "other", 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
		keys, err := redistest.Keys(t.Context(), rdb, "prefix:")
		if err != nil || !slices.Equal(keys, []string{"prefix:a"}) {
			t.Errorf("keys are %v, %v", keys, err)
		}
	})
}

func TestRedisTakesArguments(t *testing.T) {
	s := redistest.Redis(t, "--maxmemory", "3mb", "--maxmemory-policy", "noeviction")
	got, err := s.NewClient(t).ConfigGet(t.Context(), "maxmemory").Result()
	if err != nil || got["maxmemory"] != "3145728" {
		t.Errorf("maxmemory is %v, %v", got, err)
	}
}

func TestRedisThatRequiresAPasswordStarts(t *testing.T) {
	s := redistest.Redis(t, "--requirepass", "secret")
	rdb := s.NewClient(t, func(o *redis.Options) { o.Password = "secret" })
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestPausedRedisAnswersAfterResume(t *testing.T) {
	s := redistest.Redis(t)
	rdb := s.NewClient(t, func(o *redis.Options) {
		o.MaxRetries, o.ContextTimeoutEnabled = -1, true
	})
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err == nil {
		t.Error("a paused server answered")
	}
	s.Resume(t)
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestPipedServerFollowsTheClockOfItsBubble(t *testing.T) {
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.Piped(t).NewClient(t)
		if err := rdb.Set(t.Context(), "k", 1, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second) // in the bubble
		if n := rdb.Exists(t.Context(), "k").Val(); n != 1 {
			t.Error("the key is gone too soon")
		}
		time.Sleep(2 * time.Second)
		if n := rdb.Exists(t.Context(), "k").Val(); n != 0 {
			t.Error("the key is still there")
		}
	})
}

// go-redis may still dial after its client was closed and the test has ended.
func TestPipedServerIsNotDialledAfterItsTest(t *testing.T) {
	var wire *redistest.Wire
	t.Run("its test", func(t *testing.T) { wire = redistest.Piped(t).NewWire() })
	if _, err := wire.Dial(t.Context(), "", ""); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Dial: %v, want net.ErrClosed", err)
	}
}

func TestPipedServerTakesLongPipelines(t *testing.T) {
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.Piped(t).NewClient(t)
		_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := range 1000 {
				p.Set(t.Context(), fmt.Sprintf("a-key-that-is-rather-long:%d", i), i, time.Minute)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := rdb.DBSize(t.Context()).Val(); n != 1000 {
			t.Errorf("%d keys arrived", n)
		}
	})
}

func TestLostReplyMakesTheClientRepeatTheCommand(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		wire := s.NewWire()
		rdb := s.NewClient(t, wire.Use)
		fault := wire.LoseReply("incr", "counter")
		n, err := rdb.Incr(t.Context(), "counter").Result()
		if err != nil || n != 2 {
			t.Errorf("INCR is %d, %v; want 2: once for the lost reply, once for the repetition", n, err)
		}
		<-fault.Caught()
	})
}

func TestWithheldCommandRunsLate(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		wire := s.NewWire()
		rdb := s.NewClient(t, wire.Use)
		fault := wire.Withhold("incr", "counter")
		go fault.Break()
		n, err := rdb.Incr(t.Context(), "counter").Result()
		if err != nil || n != 1 {
			t.Fatalf("INCR is %d, %v; want 1: only the repetition arrives", n, err)
		}
		if answer, err := fault.Send(t.Context()); err != nil || answer != ":2\r\n" {
			t.Errorf("the late command was answered %q, %v", answer, err)
		}
	})
}

func TestSilentServerRunsCommands(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		wire, other := s.NewWire(), s.NewClient(t)
		rdb := s.NewClient(t, wire.Use, func(o *redis.Options) { o.MaxRetries, o.ReadTimeout = -1, -1 })
		if err := rdb.Set(t.Context(), "k", "before", 0).Err(); err != nil {
			t.Fatal(err)
		}
		wire.Silence()
		answer := make(chan error, 1)
		go func() { answer <- rdb.Set(t.Context(), "k", "meanwhile", 0).Err() }()
		for limit := time.After(time.Minute); other.Get(t.Context(), "k").Val() != "meanwhile"; {
			select {
			case <-time.After(time.Millisecond): // polling
			case <-limit:
				t.Fatal("the server does not run the command")
			}
		}
		wire.Restore()
		if err := <-answer; err == nil {
			t.Error("an answer arrived")
		}
		if got := rdb.Get(t.Context(), "k").Val(); got != "meanwhile" {
			t.Errorf("after Restore GET is %q", got)
		}
	})
}

func TestCutWireRefusesUntilRestored(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		wire := s.NewWire()
		rdb := s.NewClient(t, wire.Use, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
		if err := rdb.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		wire.Cut()
		for range 2 { // on the old connection, and on a new one
			if err := rdb.Ping(t.Context()).Err(); err == nil {
				t.Error("an answer arrived")
			}
		}
		wire.Restore()
		if err := rdb.Ping(t.Context()).Err(); err != nil {
			t.Errorf("after Restore: %v", err)
		}
	})
}

func TestRecordedCommandsRunAgain(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		wire, other := s.NewWire(), s.NewClient(t)
		rdb := s.NewClient(t, wire.Use)
		if err := rdb.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		wire.Record()
		const source = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
		_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Eval(t.Context(), source, []string{"counter"}, 5)
			p.Set(t.Context(), "k", "a\r\nb", 0)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		sent := wire.Sent()
		for len(sent) > 0 && !sent[0].IsScript() { // commands of a new connection
			sent = sent[1:]
		}
		if len(sent) != 2 || sent[1].IsScript() || !sent[1].Concerns("a\r\nb") {
			t.Fatalf("recorded %q", sent)
		}
		if n, err := redistest.Rerun(t.Context(), other, sent[0]); err != nil || n != int64(10) {
			t.Errorf("run again: %v, %v; want 10", n, err)
		}
	})
}
