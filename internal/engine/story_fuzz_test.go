package engine

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
)

// A stage is one lock on a server, where stories about it are played. A story has one line for each
// thing that happens. Some lines are a stranger's doing, a command for one of the lock's keys:
//
//	H hset id x token 1e300      the holder's hash; '_' in a value is a space
//	Q zadd inf x                 the queue; R is for that of the readers, T for the tickets,
//	                             F for the fencing counter, K for the place of the ticket t
//	T hdel HEAD                  the ticket at the head of the queue
//
// The others are runs of the scripts for the ids a to f:
//
//	wait a 40        acquire.lua; 40 is the tokens wanted, 1 if left out; wait+ has a subscription
//	try a            the same without a ticket
//	read a · tryread a · keep a · trykeep a     to read; with a place that is kept, of the ticket t
//	over a b         gives up a's hold for a place in the queue, under the id b
//	lost a b 7       queues b in the place 7 of a's lost ticket; lostread is of one that reads
//	poll a b         poll.lua; without ids nobody's; poll+ has a subscription
//	renew a · release a · linger a · mark a · cancel a · force · down a
//	leave a · away a                            release and cancel of one whose place is kept
//	later 5000       the clock moves on, in ms; only an embedded server has one that can
//
// What makes no sense is skipped, so that every text is a story.
type stage struct {
	*desk
	server  *redistest.Server
	clock   time.Time
	given   int64                // the last fencing token that was given or reserved
	written int64                // the last that was given to one who excludes others
	visited bool                 // somebody else has written to the keys
	modes   map[string]core.Mode // of the ids that were used
}

const storyKey = "item:1"

// stageFor returns what plays stories on s, each for another test.
func stageFor(f *testing.F, s *redistest.Server) func(t *testing.T, story string) {
	rdb := s.NewClient(f)
	e := &Engine{cfg: DefaultConfig(), fence: "lockmw:fence"}
	name, scripts := e.nameOf(storyKey), newScripts(true)
	return func(t *testing.T, story string) {
		rdb.FlushAll(t.Context())
		st := &stage{desk: &desk{T: t, rdb: rdb, name: name, scripts: scripts}, server: s, clock: time.Now(), modes: make(map[string]core.Mode)}
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

const (
	maxLines = 24
	maxToken = 1<<53 - 1 // the next one is not above it, as Lua counts
)

func (s *stage) play(story string) {
	lines := 0
	for line := range strings.Lines(story) {
		words := strings.Fields(line)
		if lines++; lines > maxLines || s.Failed() {
			return
		}
		if len(words) > 0 {
			s.line(words)
		}
	}
}

func (s *stage) line(words []string) {
	switch verb, rest := words[0], words[1:]; verb {
	case "H", "Q", "R", "T", "F", "K":
		s.stranger(verb, rest)
	case "later":
		if ms, ok := number(rest, 0, 1, 120_000); ok && s.server.Mini != nil {
			s.later(time.Duration(ms) * time.Millisecond)
		}
	default:
		if r := s.parse(verb, rest); r != nil {
			s.perform(r)
		}
	}
}

func (s *stage) later(d time.Duration) {
	s.clock = s.clock.Add(d)
	s.server.Mini.SetTime(s.clock)
}

// keyFor is the key that a story's letter stands for.
func (s *stage) keyFor(letter string) string {
	return map[string]string{
		"H": s.name.holder, "Q": s.name.queue(), "R": s.name.readers(), "T": s.name.tickets(),
		"F": s.name.fence.(string), "K": s.name.kept("t"),
	}[letter]
}

// stranger runs a command that is not ours.
func (s *stage) stranger(letter string, words []string) {
	if len(words) == 0 {
		return
	}
	switch words[0] {
	case "set", "hset", "hdel", "zrem", "rpush", "sadd", "del", "persist":
	case "zadd":
		if slices.Contains(words, "nan") {
			return // only an embedded server takes it
		}
	case "pexpire":
		if _, ok := number(words, 1, 60_000, 1<<50); !ok {
			return // what expires in between is another test's
		}
	default:
		return
	}
	head := "nobody"
	if ids := s.rdb.ZRange(s.Context(), s.name.queue(), 0, 0).Val(); len(ids) > 0 {
		head = ids[0]
	}
	value := strings.NewReplacer("_", " ", "HEAD", head)
	args := []any{words[0], s.keyFor(letter)}
	for _, w := range words[1:] {
		args = append(args, value.Replace(w))
	}
	_ = s.rdb.Do(s.Context(), args...).Err() // a stranger's mistakes are its own
	s.visited = true
	if letter == "F" {
		s.given, s.written = 0, 0 // the scripts cannot know better
	}
}

// number reads a story's number, if it is there and within bounds.
func number(words []string, i int, least, most int64) (int64, bool) {
	if i >= len(words) {
		return 0, false
	}
	n, err := strconv.ParseInt(words[i], 10, 64)
	return n, err == nil && n >= least && n <= most
}

// inspect looks at the lock as an operator does.
func (s *stage) inspect() {
	i, err := NewInspector(s.rdb, "lockmw")
	if err != nil {
		s.Fatal(err)
	}
	if _, err := i.Get(s.Context(), storyKey); err != nil && !errors.Is(err, core.ErrWrongType) {
		s.Errorf("the inspector: %v", err)
	}
}

// clear checks that what is left in the queue cannot keep a newcomer out for ever.
func (s *stage) clear() {
	s.rdb.Del(s.Context(), s.name.holder)
	now := s.look()
	if last, ok := now.counter(); !ok || last > maxToken-maxLines || now.queue.isStrange() || now.crowd.isStrange() || now.tickets.isStrange() {
		return
	}
	const newcomer = "z"
	for range len(now.queue.fields) + len(now.crowd.fields) + 3 {
		s.later(acceptWindow + time.Second)
		if r, err := s.request(newcomer, "try", "", 1); err == nil && r.int() == 1 {
			return
		}
	}
	s.Errorf("nobody can take the lock any more: %v", s.look())
}
