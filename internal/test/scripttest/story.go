package scripttest

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// MaxLines is how many lines of a story are played.
const MaxLines = 24

// StrangerLetters begin the lines of strangers, which are other clients. Such a line is a command for one of the lock's keys:
//
//	H hset id x token 1e300      the holder's hash; '_' in a value is a space
//	Q zadd inf x                 the queue; R is that of the readers, T the tickets,
//	                             F the fencing counter, K the kept place t
//	T hdel HEAD                  the ticket at the head of the queue
const StrangerLetters = "HQRTFK"

// IsStranger reports whether a line with that first word is a stranger's.
func IsStranger(word string) bool { return len(word) == 1 && strings.Contains(StrangerLetters, word) }

// Stranger runs a command of a stranger. It reports whether the line is valid.
func (d *Driver) Stranger(letter string, words []string) bool {
	if len(words) == 0 {
		return false
	}
	switch words[0] {
	case "set", "hset", "hdel", "zrem", "rpush", "sadd", "del", "persist":
	case "zadd":
		if slices.Contains(words, "nan") {
			return false // only an embedded server accepts it
		}
	case "pexpire":
		if _, ok := Number(words, 1, 60_000, 1<<50); !ok {
			return false // other tests cover expiry in between
		}
	default:
		return false
	}
	head := "nobody"
	if ids := d.Redis.ZRange(d.Context(), d.Keys.Queue(), 0, 0).Val(); len(ids) > 0 {
		head = ids[0]
	}
	value := strings.NewReplacer("_", " ", "HEAD", head)
	args := []any{words[0], d.keyFor(letter)}
	for _, w := range words[1:] {
		args = append(args, value.Replace(w))
	}
	_ = d.Redis.Do(d.Context(), args...).Err() // a stranger's errors do not matter
	return true
}

// keyFor returns the key for a story's letter.
func (d *Driver) keyFor(letter string) string {
	return map[string]string{
		"H": d.Keys.Holder(), "Q": d.Keys.Queue(), "R": d.Keys.ReadQueue(), "T": d.Keys.Tickets(),
		"F": d.Keys.Fence(), "K": d.Keys.Kept("t"), "A": d.Keys.Alive(),
	}[letter]
}

// Number parses a story's number, if it is there and within bounds.
func Number(words []string, i int, least, most int64) (int64, bool) {
	if i >= len(words) {
		return 0, false
	}
	n, err := strconv.ParseInt(words[i], 10, 64)
	return n, err == nil && n >= least && n <= most
}

// A Teller makes up stories: randomly changed bytes rarely make sense.
type Teller struct{ *rand.Rand }

// RandomStory makes a story from a seed. Half of them contain lines of strangers.
func RandomStory(seed uint64, other func(Teller) string) string {
	r := Teller{rand.New(rand.NewPCG(seed, 0))}
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

// Pick returns one of the values.
func (r Teller) Pick(from ...string) string { return from[r.IntN(len(from))] }

// ID returns one of the most frequent ids.
func (r Teller) ID() string { return r.Pick("a", "b", "c", "d") }

func (r Teller) ticket() string { return r.Pick("HEAD", "HEAD", r.ID()) }

// junk returns a value that does not belong there.
func (r Teller) junk() string {
	return r.Pick(
		"x", "0", "1", "-1", "0.5", "inf", "-inf", "nan", "1e300", "-1e300", "0x10", "_", "+1", "-1e300", "9007199254740990",
		"9007199254740991", "9007199254740992", "9223372036854775807", "+9007199254740991", "a_b_c_d_e_f", "+1_x", "1_9007199254740992", "m_1_7_i_o_1", "m_1_nan_i_o_1_t",
	)
}

func (r Teller) stranger() string {
	switch r.IntN(7) {
	case 0:
		return "H " + r.Pick(
			"del", "persist", "set "+r.junk(), "hdel "+r.Pick("id", "owner", "token", "since", "inbox", "mode", "next", "reader:"+r.ID()), "rpush x",
			"hset id x owner o token 5 inbox i since 5 mode m", "pexpire "+r.Pick("-1", "70000", "9007199254740992"))
	case 1:
		return "H hset " + r.Pick("id", "owner", "token", "tokens", "since", "inbox", "mode", "wanted", "waiters", "trace", "next", "reader:"+r.ID()) +
			" " + r.Pick(r.junk(), r.junk(), "read")
	case 2:
		return "Q " + r.Pick("del", "set x", "zadd "+r.junk()+" "+r.ticket(), "zadd "+r.junk()+" "+r.junk(), "zrem "+r.ticket(), "persist", "zrem #readers", "zadd 1 #readers")
	case 3:
		return "T " + r.Pick(
			"del", "rpush x", "hdel "+r.ticket(),
			"hset "+r.Pick("#admit", r.ticket(), "x")+" "+r.junk())
	case 4:
		return "R " + r.Pick("del", "set x", "zadd "+r.junk()+" "+r.ID(), "zadd "+r.junk()+" "+r.junk(), "zrem "+r.ID(), "persist")
	case 5:
		return "K " + r.Pick("del", "rpush x", "set "+r.junk())
	}
	return "F " + r.Pick("del", "rpush x", "set "+r.junk())
}
