package engine

import (
	"math/rand/v2"
	"strings"
)

// A teller makes up stories: bytes that are changed at random rarely make sense.
type teller struct{ *rand.Rand }

// randomStory makes a story of a seed, half of them with lines of strangers among the others.
func randomStory(seed uint64, other func(teller) string) string {
	r := teller{rand.New(rand.NewPCG(seed, 0))}
	lines := make([]string, 4+r.IntN(14))
	for i := range lines {
		if seed%2 == 0 && r.IntN(3) == 0 {
			lines[i] = r.stranger()
		} else {
			lines[i] = other(r)
		}
	}
	return strings.Join(lines, "\n")
}

func (r teller) pick(from ...string) string { return from[r.IntN(len(from))] }

func (r teller) id() string { return r.pick("a", "b", "c", "d") }

func (r teller) ticket() string { return r.pick("HEAD", "HEAD", r.id()) }

// junk is a value that does not belong where it is put.
func (r teller) junk() string {
	return r.pick(
		"x", "0", "1", "-1", "0.5", "inf", "-inf", "nan", "1e300", "-1e300", "0x10", "_", "+1", "-1e300", "9007199254740990",
		"9007199254740991", "9007199254740992", "9223372036854775807", "+9007199254740991", "a_b_c_d_e_f", "m_1_7_i_o_1", "m_1_nan_i_o_1_t",
	)
}

func (r teller) stranger() string {
	switch r.IntN(7) {
	case 0:
		return "H " + r.pick(
			"del", "persist", "set "+r.junk(), "hdel "+r.pick("id", "owner", "token", "since", "inbox", "mode", "next", "reader:"+r.id()), "rpush x",
			"hset id x owner o token 5 inbox i since 5 mode m", "pexpire "+r.pick("-1", "70000", "9007199254740992"))
	case 1:
		return "H hset " + r.pick("id", "owner", "token", "tokens", "since", "inbox", "mode", "wanted", "trace", "next", "reader:"+r.id()) +
			" " + r.pick(r.junk(), r.junk(), "read")
	case 2:
		return "Q " + r.pick("del", "set x", "zadd "+r.junk()+" "+r.ticket(), "zadd "+r.junk()+" "+r.junk(), "zrem "+r.ticket(), "persist", "zrem #readers", "zadd 1 #readers")
	case 3:
		return "T " + r.pick(
			"del", "rpush x", "hdel "+r.pick("", "@")+r.ticket(),
			"hset "+r.pick("#touched", "#amnesty", "#admit", r.ticket(), "@"+r.ticket(), "x", "@x")+" "+r.junk())
	case 4:
		return "R " + r.pick("del", "set x", "zadd "+r.junk()+" "+r.id(), "zadd "+r.junk()+" "+r.junk(), "zrem "+r.id(), "persist")
	case 5:
		return "K " + r.pick("del", "rpush x", "set "+r.junk())
	}
	return "F " + r.pick("del", "rpush x", "set "+r.junk())
}

// scriptLine is one of a stage.
func scriptLine(r teller) string {
	switch r.IntN(10) {
	case 0:
		return "later " + r.pick("1", "800", "2300", "3100", "31000", "61000")
	case 1, 2:
		return r.pick("wait", "wait+", "try") + " " + r.id() + r.pick("", " 40")
	case 3, 4:
		return r.pick("read", "read", "read+", "tryread") + " " + r.id()
	case 5:
		return r.pick("keep", "trykeep", "away", "leave") + " " + r.id()
	case 6:
		return r.pick("over", "lost", "lostread") + " " + r.id() + " " + r.id() + r.pick("", " 1", " 9007199254740991")
	case 7:
		return r.pick("poll", "poll+") + " " + r.pick("", r.id(), r.id()+" "+r.id())
	}
	return r.pick("renew", "release", "linger", "mark", "cancel", "release", "force", "down", "release") + " " + r.id()
}

// holderLine is one of a play.
func holderLine(r teller) string {
	switch r.IntN(6) {
	case 0:
		return "later " + r.pick("1", "100", "800", "2300", "3100", "11000", "31000", "60000")
	case 1:
		return r.pick("stop", "unlock", "unlock", "down") + " " + r.id()
	case 2:
		return "unlock " + r.id()
	}
	return r.pick("lock", "read", "read", "write", "keep") + " " + r.id() + " " + r.pick("0", "300", "60000", "60000", "600000")
}
