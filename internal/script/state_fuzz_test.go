package script_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/test/suite"
)

// Whatever another client, or a fault, has left at the keys of a lock, scripts return an error or recover. There is never a
// second holder, a script that stops half-way, a repeated token, or a lock that no call can take.
func FuzzStateOnMiniredis(f *testing.F) { fuzzState(f, redistest.Mini(f)) }

// FuzzStateOnRedis is FuzzStateOnMiniredis with Redis' own Lua, which reads and prints numbers in
// other ways.
func FuzzStateOnRedis(f *testing.F) { fuzzState(f, redistest.Lent(f)) }

func fuzzState(f *testing.F, s *redistest.Server) {
	race.FindsNothing(f)
	for _, story := range stories {
		f.Add(story, uint64(0))
	}
	addSeeds(f, 40)
	play := stageFor(f, s)
	f.Fuzz(func(t *testing.T, story string, seed uint64) {
		if seed != 0 {
			story += "\n" + scripttest.RandomStory(seed, scriptLine)
		}
		play(t, story)
		if t.Failed() {
			t.Logf("the story:\n%s", story)
		}
	})
}

// addSeeds adds the seeds of that many random stories, in the quick suite a quarter of them.
func addSeeds(f *testing.F, n uint64) {
	if !suite.Full() {
		n /= 4
	}
	for seed := range n {
		f.Add("", seed+1)
	}
}

// stories are where fuzzing begins: ordinary days first, then each key of a lock in turn.
var stories = []string{
	"wait a\nwait b\nrenew a\nrelease a\npoll b\nrelease b",
	"F set 9007199254740992\npoll a\nwait b",
	"wait+ d 40\nwait a\nH hset owner inf\nwait d\nlost a b 1",
	"wait a 40\nwait+ b\nwait c\nover a d\npoll b c d\ncancel b\nforce\npoll+ d\nmark d\nwait d",
	"wait a\ntry b\nwait b\nlinger a\npoll b\nlater 61000\npoll b\nlater 4000\nlost b c 1\nrelease c",
	"wait a\nwait+ b\nwait c\nlater 900\npoll c\nrelease a\npoll b c\nlater 3000\npoll c",
	"wait a\nwait b\nH del\ntry c\nwait d\npoll b d",
	"wait a 40 9\ntell a 3 2\ntell a 7 1\nwait b 40 5\ntell b 2 1\nrelease a\ntell a 1 3\ntell b 2 1\nlinger b\ntell b 1 2",
	"wait a 40 9\nH hset waiters x\ntell a 3 1\nH hset waiters 1_9007199254740992\ntell a 4 2\nH persist\ntell a 5 3\nH set x\ntell a 6 4",
	"read a\ntell a 3 1\nrelease a\nwait a\nwait b 40 9\nT hset @b +1_x\npoll b\nT hset @b +1_9007199254740992\nrelease a\ntell b 1 1",

	"read a\nread b\ntryread c\nrenew b\nrelease a\nrelease b\nrelease c\nwait d",
	"wait a\nread b\nwait c\nread d\nrelease a\npoll b d\nrelease b\nrelease d\npoll c\nrelease c",
	"read a\nwait b\nread c\ntryread d\ncancel b\npoll a c\nrelease a\nrelease c",
	"read a\nwait b\nread c\nlater 31000\npoll b c\nrelease b\npoll c",
	"wait a\nread b\nwait c\nread d\ndown a\nread e\npoll b d\ndown a\nrelease a\nrelease b\nrelease d\npoll c",
	"wait a 40\ndown a\nread b\nrenew a\ncancel a\nforce\nwait c",
	"wait a\nread+ b\nread c\nlater 900\nrelease a\npoll b\nlater 3100\npoll b\nwait d",
	"wait a\nread b\nread c\nlater 31000\nread b\npoll c\nlater 3000\nread c",
	"read a\nread b\nmark a\nread a\nlinger b\nwait c\nlater 61000\npoll c",
	"wait a\nread b\nT del\nlostread b c 7\nread d\nrelease a\npoll c d",
	"keep a\nkeep b\nwait c\naway b\nleave a\nkeep d\nrelease c\nleave d",
	"wait a\ntrykeep b\nwait c\nkeep d\nlater 4000\npoll c\naway d\nlater 6000\nkeep e\nrelease a\npoll c e",
	"read a\nkeep b\nread c\naway b\nread d\ntrykeep e\nrelease a\nforce\nforce\nkeep f",

	"H hset mode read\nread a\nwait b\npoll a\ncancel a\ndown a\nforce",
	"H hset mode read next 5\nread a\ncancel a\nwait b\nH hset token 5\nread a\ncancel b",
	"H hset mode read next 5 token 5 reader:a x reader:b 9_9 reader:c 9007199254740990_5_i_o_\nread d\npoll c\nrelease c\nrelease d",
	"read a\nH hset token x\nread b\nrelease a\nrenew a\ncancel a",
	"read a\nread b\nH hset next x\npoll a\ndown a\nrelease a\ncancel b",
	"read a\nread b\nH hset reader:a x\nrenew a\npoll a b\nrelease a\nwait c\nlater 31000\npoll c",
	"read a\nH hset reader:a 9007199254740991_5_i_o_ next 9007199254740992\nrenew a\nwait b\nlater 31000\npoll b",
	"read a\nwait b\nH hset wanted x\nrenew a\nread c\ncancel b\npoll c",
	"read a\nH persist\nwait b\nrelease a\npoll b\nread c\nH persist\ndown b",
	"wait a\nH persist\nread b\ndown a\npoll b",
	"read a\nwait b\nread c\nQ zrem #readers\nrelease a\npoll b c\nrelease b\npoll c",
	"read a\nQ zadd 1 #readers\nwait b\nread c\nrelease a\npoll b c",
	"wait a\nread b\nT hset #admit x\nwait c\nrelease a\npoll b c\nrelease b\npoll c",
	"wait a\nread b\nT hset #admit 1 b x\nrelease a\npoll b\nwait c",
	"R set x\nread a\nwait b\nrelease b\ncancel a\nwait c",
	"wait a\nread b\nwait c\nR del\nR set x\nrelease a\npoll b c\ncancel b\ndown c",
	"wait a\nread b\nwait c\nR zadd inf x 1 a nan y\nread d\ndown a\npoll b d\nrelease a",
	"read a\nwait b\nread c\nQ del\nQ set x\ncancel c\nrelease a\ncancel b",
	"K rpush x\nwait a\nkeep b\ntrykeep c\naway b\nrelease a\nleave c",
	"wait a\nK set x\nkeep b\naway b\nK set 1e300\nkeep c\nK set 9007199254740990\nkeep d\nrelease a",
	"wait a\nQ zadd inf x\nkeep b\naway b\nkeep c\nrelease a\npoll c",
	"wait a\nQ zadd 9007199254740990 x\ntrykeep b\nkeep c\nrelease a\npoll c\nwait d",
	"F set 9007199254740989\nread a\nwait b\nrelease a\nread c\nrelease b\npoll c",
	"wait a\nread b\nF set x\nrelease a\ndown a\npoll b",
	"read a\nF del\nread b\nwait c\nrelease a\nrelease b\npoll c",

	"H set x\nwait a\ntry b\npoll a\nrenew a\ncancel a\nrelease a",
	"H rpush x\nwait a\nforce\nlost a b 1",
	"H hset 9f8c:12 1\nwait a\npoll a\ncancel a",
	"H hset id x token 1 inbox i\nwait a\npoll a",
	"H hset id x owner o token x inbox i since 1 mode m\nwait a\ntry b\npoll a\nforce",
	"H hset id x owner o token 1e300 inbox i since 1 mode m\nwait a\npoll a",
	"H hset id x owner o token -1 inbox i since 1 mode m\nwait a",
	"H hset id x owner o token 9007199254740993 inbox i since 1 mode m\nwait a",
	"H hset id x owner o token nan inbox i since inf mode m\nwait a\npoll a",
	"H hset id x owner o token 1 inbox i since x mode m\nwait a\npoll a",
	"H hset id x owner o token 1 inbox i since 1 mode m tokens x\nwait a\ntry b\npoll a",
	"H hset id x owner o token 1 inbox i since 1 mode m tokens inf\nwait a\npoll a",
	"H hset id x owner o token 1 inbox i since 1 mode m\nwait a\npoll a\nH del\npoll a",
	"wait a\nwait b\nH hset tokens 0\nwait a\npoll a",
	"wait a\nH hset wanted x\nrenew a\nrelease a",
	"wait a\nwait b\nH pexpire 9007199254740992\npoll b",
	"wait a\nwait b\nH del\nH rpush x\npoll b\nrelease a\ncancel b",
	"wait a\nH hdel token\nwait b\nrenew a\nrelease a\nwait b",

	"Q set x\nwait a\nrelease a",
	"wait a\nQ set x\ncancel a",
	"wait a\nQ rpush x\nwait b\nover a b\npoll b\ncancel a",
	"wait a\nwait b\nQ del\nQ set x\nrelease a\npoll b\ncancel b",
	"Q zadd inf x\nwait a\npoll a",
	"wait a\nQ zadd inf x\nwait b\nrelease a\npoll b",
	"wait a\nQ zadd -inf x 1e300 y 9007199254740993 z\nwait b\nwait c\nrelease a\npoll b c",
	"wait a\nwait b\nQ zadd 0.5 #touched 0 @b\nrelease a\npoll b",
	"Q zadd 1 a\npoll a\nQ zadd 1 b\nwait b",
	"wait a\nQ zadd 1 a\nwait b\nrelease a\npoll a b",

	"T set x\nwait a\nwait b\nrelease a",
	"wait a\nwait b\nT del\nT rpush x\nwait c\npoll b\nrelease a\ncancel b\nover a d",
	"wait a\nT hset #touched x\nwait b\nrelease a\npoll b",
	"wait a\nwait b\nT hset #touched inf #amnesty x\nlater 10000\npoll\nrelease a\npoll b",
	"wait a\nwait b\nT hset #touched -1e300 #amnesty 1e300\nlater 10000\nrelease a\npoll b",
	"wait a\nwait b\nT hset b x\nrelease a\npoll b",
	"wait a\nwait b\nT hset b a_b_c_d_e_f\nrelease a\npoll b",
	"wait a\nwait b\nT hset b a_b_nan_d_e_f_g\nrelease a\npoll b",
	"wait a\nwait b\nT hset b a_b_1e300_d_e_f_g\nF set 1\nrelease a\npoll b",
	"wait a\nwait b\nT hset b a_b_1.5_d_e_f_g @b +1e300\nrelease a\npoll+ b",
	"wait a\nwait b\nT hset @b x\nrelease a\npoll b",
	"wait a\nwait b\nT hdel b\nrelease a\npoll b",
	"Q zadd 1 x\nT hset x m_30000_1_i_o_1 @x -1e300\nwait a\nlater 4000\npoll a",

	"F rpush x\nwait a\ntry a\nover a b",
	"F set x\nwait a\nwait b\npoll b",
	"F set nan\nwait a",
	"F set -5\nwait a\nwait b",
	"F set -1e300\nwait a 40",
	"F set 1e300\nwait a\nwait b",
	"F set inf\nwait a\nwait b",
	"F set 9007199254740989\nwait a 40\npoll a\nwait b\nrelease a\npoll b\nrelease b\nwait a\nrelease a\nwait b",
	"F set 9007199254740990\nwait a\nwait b\npoll a\nrelease a\npoll b",
	"F set 9007199254740991\nwait a\nwait b\nrelease a",
	"F set 9007199254740992\nwait a\nrelease a\nwait b",
	"F set 9000000000000000.5\nwait a\nrelease a\nwait b",
	"F set 9223372036854775807\nwait a\nrelease a\nwait b",
	"F set 0x10\nwait a",
	"wait a\nwait b\nF set x\nrelease a\npoll b\ncancel b",
	"wait a\nwait b\nF set 1e300\npoll b\nover a c\nrelease a\npoll b",
	"wait a\nwait b\nF del\nF rpush x\npoll b\nrelease a\npoll b\nforce",
	"wait a\nwait b\nF del\npoll b\nrelease a\npoll b",
}
