package script_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inspect"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
)

// A stage is one lock on a server, where stories about it are played. A story has one line for each
// thing that happens. Some lines are a stranger's doing, which scripttest.StrangerLetters explains. The
// others are runs of the scripts for the ids a to f:
//
//	wait a 40 9      acquire.lua; 40 is the tokens wanted, 9 the calls that a stands for, each 1 if left out;
//	                 wait+ has a subscription
//	try a            the same without a ticket
//	read a · tryread a · keep a · trykeep a     to read; in strict order, with the kept place t
//	over a b         gives up a's hold for a place in the queue, under the id b
//	lost a b 7       queues b in the place 7 of a's lost ticket; lostread is of one that reads
//	poll a b         poll.lua; without ids nobody's; poll+ has a subscription
//	tell a 5 2       report_waiters.lua says as its second run that 5 calls wait behind a
//	renew a · release a · linger a · mark a · cancel a · force · down a
//	run a · runwrite a                          in strict order, to write, as one of a run; a to d are of one process
//	served a b c · unserved a b c               release and cancel of a, whose hold was passed to b and c
//	leave a · away a                            release and cancel of one whose place is kept
//	later 5000       the clock moves on, in ms; only an embedded server has one that can
//
// What makes no sense is skipped, so that every text is a story.
type stage struct {
	*scripttest.Driver
	server  *redistest.Server
	clock   time.Time
	given   int64                // the last fencing token that was given or reserved
	written int64                // the last that was given to one who excludes others
	visited bool                 // somebody else has written to the keys
	modes   map[string]core.Mode // of the ids that were used
}

// stageFor returns what plays stories on s, each for another test.
func stageFor(f *testing.F, s *redistest.Server) func(t *testing.T, story string) {
	shared := scripttest.NewShared(f, s.NewClient(f), "item:1")
	return func(t *testing.T, story string) {
		shared.Redis.FlushAll(t.Context())
		st := &stage{Driver: shared.With(t), server: s, clock: time.Now(), modes: make(map[string]core.Mode)}
		if s.Mini != nil {
			s.Mini.SetTime(st.clock)
		}
		st.play(story)
		st.inspect()
		if s.Mini != nil {
			st.clear()
		}
	}
}

func (s *stage) play(story string) {
	lines := 0
	for line := range strings.Lines(story) {
		words := strings.Fields(line)
		if lines++; lines > scripttest.MaxLines || s.Failed() {
			return
		}
		if len(words) > 0 {
			s.line(words[0], words[1:])
		}
	}
}

func (s *stage) line(verb string, words []string) {
	switch {
	case scripttest.IsStranger(verb):
		s.stranger(verb, words)
	case verb == "later":
		if ms, ok := scripttest.Number(words, 0, 1, 120_000); ok && s.server.Mini != nil {
			s.later(time.Duration(ms) * time.Millisecond)
		}
	default:
		if r := s.parse(verb, words); r != nil {
			s.perform(r)
		}
	}
}

func (s *stage) later(d time.Duration) {
	s.clock = s.clock.Add(d)
	s.server.Mini.SetTime(s.clock)
}

// stranger runs a command that is not ours.
func (s *stage) stranger(letter string, words []string) {
	if !s.Stranger(letter, words) {
		return
	}
	s.visited = true
	if letter == "F" {
		s.given, s.written = 0, 0 // the scripts cannot know better
	}
}

// inspect looks at the lock as an operator does.
func (s *stage) inspect() {
	i, err := inspect.New(s.Redis, inspect.Config{Prefix: "lockmw"})
	if err != nil {
		s.Fatal(err)
	}
	if _, err := i.Get(s.Context(), s.Key); err != nil && !errors.Is(err, core.ErrWrongType) {
		s.Errorf("the inspector: %v", err)
	}
}

// clear checks that what is left in the queue cannot keep a newcomer out for ever.
func (s *stage) clear() {
	s.Redis.Del(s.Context(), s.Keys.Holder())
	now := s.Look()
	if last, ok := now.Counter(); !ok || last > scripttest.MaxToken-scripttest.MaxLines || now.Queue.IsStrange() || now.ReadQueue.IsStrange() || now.Tickets.IsStrange() {
		return
	}
	const newcomer = "z"
	for range len(now.Queue.Fields) + len(now.ReadQueue.Fields) + 3 {
		s.later(script.AcceptWindow + time.Second)
		if got, err := s.AcquireOnce(scripttest.Acquire{ID: newcomer, Try: true}); err == nil && got.Outcome == script.Held {
			return
		}
	}
	s.Errorf("no id can take the lock any more: %v", s.Look())
}
