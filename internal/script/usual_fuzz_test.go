package script_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/test/suite"
)

// The fast paths and queue_batch.lua do the same as the rest of the scripts: every story is played with and without them, and
// all answers, writes and messages are the same.
func FuzzUsualWays(f *testing.F) {
	race.FindsNothing(f)
	all := stories
	if !suite.Full() {
		all = stories[:25] // FuzzState plays the others
	}
	playBothWays(f, slices.Concat(all, usualStories, crowdStories), 40, func(seed uint64) string { return scripttest.RandomStory(seed, usualLine) })
}

// playBothWays plays stories, and seeds random ones, with and without the fast paths.
func playBothWays(f *testing.F, stories []string, seeds uint64, random func(seed uint64) string) {
	for _, story := range stories {
		f.Add(story, uint64(0))
	}
	addSeeds(f, seeds)
	short, long := newTwin(f), newTwin(f)
	long.driver.Thoroughly()
	long.singly = true
	f.Fuzz(func(t *testing.T, story string, seed uint64) {
		if seed != 0 {
			story += "\n" + random(seed)
		}
		start := time.Now()
		a, b := short.on(t, start), long.on(t, start)
		lines := 0
		for line := range strings.Lines(story) {
			words := strings.Fields(line)
			if lines++; lines > scripttest.MaxLines {
				break
			}
			if len(words) == 0 {
				continue
			}
			if got, want := a.tells(words), b.tells(words); got != want {
				t.Fatalf("after %q in\n%s\nthe short way:\n%s\nthe long way:\n%s", line, story, got, want)
			}
		}
	})
}

// usualLine makes a random line of a story in which the lock may be over several nodes, and many calls may come together.
func usualLine(r scripttest.Teller) string {
	switch r.IntN(6) {
	case 0, 1, 2:
		return scriptLine(r)
	case 3:
		return crowdLine(r)
	}
	return r.Pick("vote ", "vote+ ", "tryvote ") + r.ID() + r.Pick("", " 1 700", " 65 700", " 1 -700", " 65 0", " 3 999998", " 3 9999999 t y")
}

// usualStories cover the boundaries between usual cases and all others.
var usualStories = []string{
	"wait a\nwait b\nwait c\nlater 100\nwait d\nlater 190\nwait e\nrelease a\nrelease b\nlater 700\nrelease c\nrelease d",
	"wait a 9\nwait b 4\nwait c 4 3\nwait d 4096\nrelease a\nrelease b\nrelease c",
	"wait a\nwait b\nlater 751\npoll\nrelease a",
	"wait a\nwait+ b\nlater 751\npoll\nrelease a",
	"wait a\nwait b\nH hset id -\nwait c",
	"wait a\nwait b\nwait b\nmark c\nwait c\nwait d\nrelease a\nrelease b",
	"wait a\nH persist\nwait b\nrelease a",
	"wait a\nF set 2999999999999999\nwait b\nrelease a",
	"wait a\nF set 123\nwait b\nrelease a",
	"wait a\nwait b\nF del\nwait c\nrelease a",
	"wait a\nQ zadd 2999999999999999 x\nwait b\nrelease a",
	"wait a\nQ zadd 12 x\nT hset x exclusive_30000_1_i_o_1 @x -1\nwait b\nrelease a",
	"wait a\nwait b\nQ zadd 1 #readers\nwait c\nrelease a",
	"wait a\nT hset #touched 1\nwait b\nrelease a",
	"wait a\nwait b\nT hset #touched 99999999999999\nwait c\nrelease a",
	"wait a\nwait b\nT hset b exclusive_30000_99999_i_o_1\nrelease a",
	"wait a\nwait b\nT hset b exclusive_30000_0_i_o_1\nrelease a",
	"wait a\nwait b\nT hset b exclusive_30000_2_i_o_1_trace\nwait c\nrelease a",
	"wait a\nwait b\nT hset b exclusive_30000_2_i_o_1_trace_more\nrelease a",
	"wait a\nH hset tokens 99999 since 1\nwait b",
	"wait a\nH hset tokens 07 owner x\nwait b\nwait c",
	"wait a\nwait b\nR zadd 1 x\nwait c\nrelease a",
	"wait a\nwait b\nread c\nrelease a\nrelease c\nrelease b",
	"wait a\nwait b\nT hdel #touched\nrelease a",
	"wait a\nwait b\nT hdel #touched\nwait c",
	"wait a\nwait b\nwait c\nlater 200\nrelease a",
	"wait a\nwait b\nT hset b exclusive_30000_99999999999999999_i_o_1\nrelease a",
	"wait a\nwait b\nF set 12345678901234567\nrelease a",
	"wait a\nwait b\nF set 12345678901234.5\nrelease a",
	"wait a\nwait b\nT hset #touched 1e12\nrelease a",
	"wait a\nwait b\nT hset #touched 1e12\nwait c",
	"wait a\nwait b\nT hset @b -1e12\nrelease a",
	"run a\nrun b\nrun c\nrun d\nrelease a\nserved b c d\nrun a",
	"run a\nrun b\nrun c\nrun d\nrelease a\nserved b c\nserved d\nrun a",
	"run a\nrun b\nrun c\nrun e\nrun d\nrelease a\nserved b c\nrelease e\nrelease d",
	"run a\nrun b\nrun c\nrelease a\nunserved b c\nrun d",
	"run a\nrun b\nrun c\nrelease a\nrun b\nrun a\nread d\nserved b c",
	"run a\nrun b\nread d\nrun c\nrelease a\nserved b c",
	"run a\nrun b\nrun c\nrun d\nT hset c fair_20000_1r_lockmw:inbox:p_o_1\nrelease a\nserved b c",
	"run a\nrun b\nrun c\nT hset b fair_30000_2r_lockmw:inbox:p_o_1\nrelease a\nserved b c",
	"run a\nrun b\nrun c\nT hset b fair_30000_0r_lockmw:inbox:p_o_1\nrelease a\nserved b c",
	"run a\nrun b\nrun c\nT hset b fair_30000_1rr_lockmw:inbox:p_o_1\nrelease a\nserved b c",
	"run a\nrun b\nQ zadd 9000000000000000 x,y\nT hset x,y fair_30000_1r_lockmw:inbox:p_o_1\nrelease a\nserved b",
	"run a\nrun b\nrun c\nlater 800\nrelease a\npoll b\nserved b c",
	"run+ a\nrun+ b\nrun+ c\nlater 800\nrelease a\npoll b\nserved b c",
	"runwrite a\nrunwrite b\nrunwrite c\nrelease a\ndown b\nread d\nserved b c",
	"run a\nrun b\nrun c\nrelease a\nH hset mode exclusive\nrun d\nkeep e\nserved b c",
	"run a\nrun b\nrun c\nrelease a\nlost d f 5\nserved b c",
	"run a\nrun b\nrun c\nrelease a\nT set x\nserved b c",
	"run a\nrun b\nrun c\nrelease a\nQ set x\nserved b c",
	"run a\nrun b\nrun c\nrun d\nrelease a\nQ zrem c\nserved b c d\nserved b c d",
	"wait a\nF set 12345678901234567\nwait b",
	"wait a\nF set 12345678901234.5\nwait b",
	"wait a\nH hset tokens 0\nwait b",
	"wait a\nH hset tokens x\nwait b",
	"wait a\nH hset tokens 12345678901234567\nwait b",
	"wait a\nH hset token 5\nwait b",
	"wait a\nH hset token 9999999999999999\nwait b",
	"wait a\nH hset token 12345678901234567 since 1\nwait b",
	"wait a\nH hset token 123456789012345.\nwait b",
	"wait a\nH hset since 9999999999999999\nwait b",
	"wait a\nH hset since 12345678901234567\nwait b",
	"wait a\nH hset since 123456789012345.\nwait b",
	"wait a\nH hdel inbox\nwait b",
	"wait a\nQ zadd 1234567890123456.5 x\nwait b",
	"wait a\nH hset token 9999999999999999 since 1234567890123456\nwait b",
	"wait a\nH hset token 12345678901234567 since 1234567890123456\nwait b",
	"wait a\nH hdel id\nwait b",
	"read a\nH hset id x inbox y\nwait b",
	"wait a\nwait b\nQ del\nR zadd 1 x\nwait c",
	"wait a\nwait b\nT hset #touched x\nwait c",
	"wait a\nwait b\nQ zadd 12345678901234567 x\nwait c",
	"wait a\nwait b\nwait c\ncancel b\ncancel c\nwait d\nrelease a",
	"wait a\nwait b\ncancel a\ncancel b\ncancel b",
	"wait a\nwait b\nwait c\nH del\ncancel b",
	"run a\nrun b\nrun c\nrun d\nrun e\nrelease a\nunserved c d e\nserved b",
	"read a\nwait b\nH hset id x\ncancel b",
	"wait a\nread b\nwait c\ncancel b\nrelease a",
	"wait a\nkeep b\nleave b\naway b\nwait c\nrelease a",
	"wait a\nwait b\nT set x\ncancel b\nrelease a",
	"wait a\nwait b\nQ set x\ncancel b",
	"wait a\nwait b\nH set x\ncancel b",
	"wait a\nwait b\nH hset mode permit\ncancel b",
	"vote a\nrelease a\nvote b 1 0\nrelease b\nvote c 1 1\nrelease c\nvote d 1 -1\nrelease d\nvote e 1 x trace y",
	"vote a 65 500\nvote a 65 500\nrelease a\nvote b 65 500\nrelease b\nvote c 65 -500\nrelease c\nvote d 65 565",
	"vote a 1 1000\nrelease a\nvote b 1 1001\nrelease b\nvote c 1 1002",
	"vote a 1 999998\nrelease a\nvote b 1 1000001\nrelease b\nvote c 3 2000000",
	"vote a 3 999996\nrelease a\nlater 2000\nvote b 3 999997\nrelease b\nlater 2000\nvote c 3 999998\nrelease c",
	"vote a 1099511627776 5\nrelease a\nvote b 1000000\nrelease b\nvote c 999999",
	"vote a 2 500 trace y\ntryvote b 2 500\ntryvote b 2 500 trace y\nvote+ c 2 500\nvote d\nrelease a\nrelease c",
	"F set 12345678901234567\nvote a 1 500",
	"F set 12345678901234.5\nvote a 1 500",
	"F set 123\nvote a 1 500",
	"F set 2999999999999999\nvote a 1 500",
	"F set x\nvote a 1 500",
	"F rpush x\nvote a 1 500",
	"F set 9007199254740990\nvote a 1 500",
	"H set x\nvote a 1 500",
	"H hset x 1\nvote a 1 500",
	"Q set x\nvote a 1 500",
	"R zadd 1 x\nvote a 1 500\nrelease a",
	"R set x\nvote a 1 500",
	"T rpush x\nvote a 1 500",
	"cancel a\nvote a 1 500\nvote b 1 500\nrelease b",
}

// A twin is a server of its own with a set clock, and a record of requests and answers.
type twin struct {
	server *redistest.Server
	driver *scripttest.Driver
	stage  *stage
	singly bool // a crowd comes one by one
	said   []string
	heard  func() []string
}

func newTwin(f *testing.F) *twin {
	s := redistest.Mini(f)
	w := &twin{server: s}
	rdb := s.NewClient(f)
	w.driver = scripttest.NewShared(f, rdb, "item:1")
	rdb.AddHook(w)
	return w
}

// on prepares the twin for another story.
func (w *twin) on(t *testing.T, start time.Time) *twin {
	w.driver.Redis.FlushAll(t.Context())
	w.stage = &stage{Driver: w.driver.With(t), server: w.server, clock: start, modes: make(map[string]core.Mode)}
	w.stage.later(0)
	w.heard = w.stage.Hear()
	return w
}

// tells plays a line of a story. It returns the answers, the messages and the final state.
func (w *twin) tells(words []string) string {
	s := w.stage
	s.later(1337 * time.Microsecond)
	w.said = nil
	switch verb := words[0]; {
	case strings.HasPrefix(verb, "permit"):
		w.permit(words)
	case strings.HasPrefix(verb, "crowd"):
		w.crowd(verb, words[1:])
	case scripttest.IsStranger(verb):
		s.Stranger(verb, words[1:])
	case verb == "later":
		s.line(verb, words[1:])
	default:
		if r := s.parse(verb, words[1:]); r != nil {
			_, _ = r.send()
		}
	}
	var left []string
	for _, key := range w.server.Mini.Keys() {
		left = append(left, fmt.Sprintf("%s for %v", key, w.server.Mini.TTL(key)))
	}
	heard := w.heard()
	if strings.HasPrefix(words[0], "crowd") {
		heard = slices.Compact(heard) // one message reports it for all
	}
	return fmt.Sprintf("said %q\nheard %q\nleft %q\n%s", w.said, heard, left, w.server.Mini.Dump())
}

// says records an answer; an error contains the lines.
func (w *twin) says(answer any, err error) {
	w.said = append(w.said, fmt.Sprintf("%#v %t", answer, err != nil))
}

// DialHook implements redis.Hook.
func (w *twin) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (w *twin) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if slices.Contains([]string{"eval", "evalsha"}, cmd.Name()) {
			w.says(cmd.(interface{ Val() any }).Val(), err)
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (w *twin) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
