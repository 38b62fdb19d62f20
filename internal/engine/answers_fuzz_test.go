package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/answertext"
	"github.com/lockmw/go/internal/test/race"
)

// Whatever the scripts are said to have answered, a call ends with a documented error or with a hold
// that one of the answers has granted.
func FuzzAnswers(f *testing.F) {
	defer race.OneProcessor()()
	const (
		queued = "( 0 17 1 1 1 30000 6 owner lockmw:inbox:p 16 5 ' )\n"
		polled = "( 0 17 1 ( ( 0 1 ) ) 30000 6 owner lockmw:inbox:p 16 5 ' )\n"
		given  = "( 0 17 1 ( ( 1 18 1 0 ) ) 30000 6 owner lockmw:inbox:p 18 5 ' )\n"
		held   = "( 1 17 1 0 )\n"
	)
	for _, text := range []string{
		held + "( 1 0 )\n( 1 0 )\n( 1 0 )", held + "( 0 )", held + "( 1 1 )\n!WRONGTYPE_x\nnil\n( 1 1 )\n( 0 0 )", held + "x\n5\n( ( ) )",
		"'17\n( 1 0 )\n( 1 0 )", "( 1 -5 1 0 )", "( 1 5 0 0 )", "( 1 5 )", "( 1 9223372036854775807 1 0 )", "( 1 nan 1 0 )", "( 2 )\n( 2 )\n( -1 )\n" + held,
		queued + polled + given + "( 1 0 )\n( 1 0 )", queued + "( 1 -9 ( ( 0 1 ) ) 0 ' ' 0 0 ' )\n( 0 )\n" + given,
		queued + "( 0 17 1 ( ( -1 ) ) 30000 6 o i 16 5 ' )\n" + held, queued + "( 0 17 1 ( ) 30000 6 o i 16 5 ' )", queued + "( 0 17 1 nil )", queued + "( 0 17 1 ( 5 ) 30000 6 o i 16 5 ' )",
		queued + "( 0 17 1 ( ( 1 0 1 0 ) ) 30000 6 o i 16 5 ' )", queued + "!WRONGTYPE_x", queued + "!ERR_x\nnil\n7\n" + given,
		"( 0 17 1 1 1 -1 o i 16 5 ' )\n( 0 17 1 ( ( 0 1 ) ) -1 o i 16 5 ' )\n( 0 17 1 ( ( 0 1 ) ) -1 o i 16 5 ' )",
		held + "( 1 0 )\n( 1 0 )\n" + "!ERR_busy\n( 1 18 1 0 )\n( 1 0 )\n( 2 0 )\n( 1 19 1 0 )\n( 1 20 1 1 )\n( 1 0 )\n( 1 0 )",
		"!ERR_x\n!ERR_x\n( 1 18 1 0 )\n!WRONGTYPE_x\n( 1 0 )", "!ERR_x\n!ERR_x\n( 1 18 1 0 )\n( 0 0 )\n( 1 19 1 0 )\n( 1 0 )", "!ERR_x\n!ERR_x\n!ERR_x\n( 1 18 1 0 )\n( 2 0 )\n( 1 0 )",
		"( 0 -17 -1 -1 -1 -9223372036854775808 o i -16 -5 ' )", "( 0 )", "( )", "nil", "OK", "1", "!TRYAGAIN_x\n" + held, "!NOSCRIPT_x\n" + held, "!LOADING_x", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		synctest.Test(t, func(t *testing.T) {
			s := &oracle{answers: strings.Split(text, "\n")}
			e := s.engine(t)
			defer func() { _ = e.Close() }()
			useLock(t, e, s, core.Exclusive, 5*time.Second)
			useLock(t, e, s, core.Exclusive, 0)
			useLock(t, e, s, core.Read, 5*time.Second)
			useLock(t, e, s, core.Write, 5*time.Second)
		})
	})
}

// useLock takes a lock, keeps it for a while, and says what was wrong with that.
func useLock(t *testing.T, e *Engine, s *oracle, mode core.Mode, wait time.Duration) {
	t.Helper()
	a := newRequester("item:1")
	a.Mode, a.Wait = mode, wait
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g, err := e.Acquire(ctx, &a.Request)
	if err != nil {
		documented(t, err, core.ErrBusy, core.ErrUnavailable, core.ErrWrongType)
		return
	}
	if !s.granted(g.Token()) {
		t.Errorf("a hold with token %d, which no answer has granted", g.Token())
	}
	switch mode {
	case core.Read:
		shareLock(ctx, t, e, s)
	case core.Write:
		if err := g.Downgrade(ctx); err != nil {
			documented(t, err, core.ErrLost, core.ErrUnavailable, core.ErrWrongType)
		}
	}
	time.Sleep(15 * time.Second) // of the bubble's time: a renewal is due after 10
	if err := g.Extend(ctx, time.Hour); err != nil {
		documented(t, err, core.ErrLost, core.ErrUnavailable, core.ErrWrongType)
	}
	if _, err := g.Release(time.Second); err != nil {
		documented(t, err, core.ErrLost, core.ErrUnavailable, core.ErrWrongType)
	}
}

// shareLock takes a read lock together with another reader.
func shareLock(ctx context.Context, t *testing.T, e *Engine, s *oracle) {
	t.Helper()
	a := newRequester("item:1")
	a.Mode, a.Wait = core.Read, time.Second
	g, err := e.Acquire(ctx, &a.Request)
	if err != nil {
		documented(t, err, core.ErrBusy, core.ErrUnavailable, core.ErrWrongType)
		return
	}
	if !s.granted(g.Token()) {
		t.Errorf("a share with token %d, which no answer has granted", g.Token())
	}
	if _, err := g.Release(time.Second); err != nil {
		documented(t, err, core.ErrLost, core.ErrUnavailable, core.ErrWrongType)
	}
}

// documented fails the test unless err is one of these.
func documented(t *testing.T, err error, kinds ...error) {
	t.Helper()
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return
		}
	}
	t.Errorf("not a documented error: %v", err)
}

// An oracle answers scripts with prepared values, one after the other, and then no more. It is a hook
// of a client that has no server.
type oracle struct {
	mu       sync.Mutex
	answers  []string
	given    []any
	commands [][]string // all that were sent
}

func (s *oracle) engine(t *testing.T) *Engine {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:0", MaxRetries: -1, DialerRetries: 1,
		Dialer: func(context.Context, string, string) (net.Conn, error) { // the inbox'
			conn, other := net.Pipe()
			return conn, other.Close()
		},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(s)
	cfg := DefaultConfig()
	cfg.Logger = slog.New(slog.DiscardHandler)
	e, err := New(rdb, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// granted reports whether one of the answers was a grant with that token.
func (s *oracle) granted(token int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.given {
		if text, ok := v.(string); ok {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && n == token {
				return true
			}
		}
		if answertext.Grant(v) == token {
			return true
		}
		list, _ := v.([]any)
		for _, part := range list { // of a poll's, one is what became of the ticket
			if tickets, _ := part.([]any); len(tickets) == 1 && answertext.Grant(tickets[0]) == token {
				return true
			}
		}
	}
	return false
}

// sent returns all commands so far.
func (s *oracle) sent() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands)
}

func (s *oracle) answer(cmd redis.Cmder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	words := make([]string, len(cmd.Args()))
	for i, arg := range cmd.Args() {
		words[i] = fmt.Sprint(arg)
	}
	s.commands = append(s.commands, words)
	c, ok := cmd.(interface{ SetVal(any) })
	if !ok || len(s.answers) == 0 {
		cmd.SetErr(io.EOF)
		return io.EOF
	}
	v := answertext.Parse(s.answers[0])
	s.answers = s.answers[1:]
	if err, isErr := v.(error); isErr {
		cmd.SetErr(err)
		return err
	}
	s.given = append(s.given, v)
	c.SetVal(v)
	return nil
}

// DialHook implements redis.Hook.
func (s *oracle) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (s *oracle) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return s.answer(cmd) }
}

// ProcessPipelineHook implements redis.Hook.
func (s *oracle) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		var first error
		for _, cmd := range cmds {
			if err := s.answer(cmd); err != nil && first == nil {
				first = err
			}
		}
		return first
	}
}
