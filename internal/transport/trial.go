package transport

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// An Effect is what a Shortcoming does to locks.
type Effect int

// The effects, from good to bad.
const (
	Degraded Effect = iota // locks work, but less well
	Unusable               // no lock can be taken
	Unsafe                 // two callers can hold one lock
)

// A Shortcoming is something that locks need and a server does not do.
type Shortcoming struct {
	Effect Effect
	Fault  string // in words, with the effect on locks
	Remedy string
	Err    error // the server's answer; nil if the server answers wrongly
}

// A Trial tries on a scratch key what locks need. It leaves nothing that does not expire. It accuses a server only of what it has
// seen: a slow server, a Cluster or a proxy is no reason. An error means that the server could not be tried.
type Trial struct {
	rdb          redis.UniversalClient
	key, channel string
}

// NewTrial returns a Trial of the server that has the keys with a hash tag in braces. prefix is the prefix of the locks. Sharded
// says that messages stay within a slot, as in a Cluster.
func NewTrial(rdb redis.UniversalClient, prefix, tag string, sharded bool) *Trial {
	channel := tag
	if !sharded {
		channel = strings.Trim(tag, "{}") // publish.lua takes a brace at the end for a slot
	}
	return &Trial{rdb: rdb, key: prefix + ":probe:" + tag, channel: prefix + ":inbox:" + channel}
}

const (
	serversPage  = "https://github.com/lockmw/go/blob/main/docs/servers.md"
	withoutProxy = "connect without the proxy, or use Redis or Valkey: see " + serversPage
)

// needs are the scripts that a server must run, each with the shortcoming of a server that refuses it.
var needs = []struct {
	script string
	Shortcoming
}{
	{"return 1", Shortcoming{Unusable, "the server runs no scripts, so there are no locks", "allow scripts: see " + serversPage, nil}},
	{
		"redis.call('TIME') redis.call('SET', KEYS[1], 1, 'PX', 10000) return redis.call('DEL', KEYS[1])",
		Shortcoming{Unusable, "scripts may not write after TIME, so there are no locks", withoutProxy, nil},
	},
	{"return {unpack({1})}", Shortcoming{Unusable, "scripts may not call unpack, so there are no locks", withoutProxy, nil}},
	{
		`if string.sub(ARGV[1], -1) == '}' and type(redis.pcall('SPUBLISH', ARGV[1], '')) == 'number' then return 1 end
		return redis.call('PUBLISH', ARGV[1], '')`,
		Shortcoming{Degraded, "scripts may not publish messages, so waiting calls must poll, which is slow", withoutProxy, nil},
	},
}

// Scripts returns what scripts may not do.
func (t *Trial) Scripts(ctx context.Context) (all []Shortcoming, err error) {
	refusals, err := t.refusals(ctx)
	if err != nil || len(refusals) == 0 {
		return nil, err
	}
	again, err := t.refusals(ctx) // a proxy may have refused one for its own state
	for i, n := range needs {
		if s := n.Shortcoming; refusals[i] != nil && again[i] != nil {
			s.Err = again[i]
			if u := unfitFor(s.Err); u != nil {
				s.Remedy = cmp.Or(u.remedy, s.Remedy)
			}
			all = append(all, s)
		}
	}
	return all, err
}

// refusals returns the errors of the needs that the server refuses. If it runs no script, only the first one counts, and only if
// the error says so.
func (t *Trial) refusals(ctx context.Context) (map[int]error, error) {
	cmds := make([]*redis.Cmd, len(needs))
	for i, n := range needs {
		cmds[i] = t.eval(ctx, n.script, t.channel)
	}
	if err := exec(ctx, t.rdb, cmds); err != nil && !IsReply(err) {
		return nil, err
	}
	refused := make(map[int]error)
	for i, cmd := range cmds {
		switch err := cmd.Err(); {
		case err == nil:
		case !isRefused(err) || i == 0 && unfitFor(err) == nil:
			return nil, err
		case i == 0:
			return map[int]error{0: err}, nil
		default:
			refused[i] = err
		}
	}
	return refused, nil
}

// isRefused reports whether a server refuses a script for what the script does, and not for its own state or the user's rights.
func isRefused(err error) bool {
	return IsReply(err) && !IsTemporary(err) && !IsFull(err) && !isWrongType(err) && !isUnauthenticated(err) && !hasPrefix(err, final)
}

// askedFor are lifetimes that differ by less than a second.
var askedFor = [...]time.Duration{10 * time.Second, 10250 * time.Millisecond, 10500 * time.Millisecond, 10750 * time.Millisecond}

const expiry = `redis.call('SET', KEYS[1], 1)
local left = {}
for i, ms in ipairs(ARGV) do
  redis.call('PEXPIRE', KEYS[1], ms)
  left[i] = redis.call('PTTL', KEYS[1])
end
redis.call('DEL', KEYS[1])
return left`

// Expiry returns how the server fails to keep the lifetime of a key; nothing if it keeps it.
func (t *Trial) Expiry(ctx context.Context) (found []Shortcoming, err error) {
	for range 3 { // a server that stops in the middle of a script may look like one that rounds
		args := make([]any, len(askedFor))
		for i, d := range askedFor {
			args[i] = d.Milliseconds()
		}
		left, err := t.run(ctx, expiry, args...).Int64Slice()
		if err != nil {
			return nil, err
		}
		if found = judgeExpiry(left); found == nil {
			return nil, nil
		}
	}
	return found, nil
}

// judgeExpiry judges the rest in milliseconds of each lifetime in askedFor.
func judgeExpiry(left []int64) []Shortcoming {
	const remedy = "use a server that keeps milliseconds: see " + serversPage
	if len(left) != len(askedFor) || slices.Contains(left, -2) { // somebody deleted the key
		return nil
	}
	whole, early := true, time.Duration(0)
	for i, ms := range left {
		rest := time.Duration(ms) * time.Millisecond
		early = max(early, askedFor[i]-rest)
		off := (rest - time.Duration(left[0])*time.Millisecond).Abs() % time.Second
		whole = whole && (off < wholeWithin || off > time.Second-wholeWithin)
	}
	switch {
	case slices.Contains(left, -1):
		return []Shortcoming{{Unsafe, "PEXPIRE has no effect: the lock of a process that crashes is never free again", remedy, nil}}
	case !whole:
		return nil
	case early > wholeWithin:
		return []Shortcoming{{Unsafe, "PEXPIRE keeps whole seconds only: a lock ends before its lease, so two callers can hold it", remedy, nil}}
	}
	return []Shortcoming{{Degraded, "PEXPIRE keeps whole seconds only: the lock of a process that crashes lasts up to a second longer", remedy, nil}}
}

// wholeWithin is how much the time that passes in a script may change a rest.
const wholeWithin = 50 * time.Millisecond

// spin writes a scratch key once and then reads it again and again. Scripts with other marks do the same together. On a server that
// runs one script after the other, no script finds the mark of another one that came later than its own.
const spin = `redis.call('SET', KEYS[1], ARGV[1], 'PX', 10000)
for _ = 1, tonumber(ARGV[2]) do
  local mark = redis.call('GET', KEYS[1])
  if mark and mark ~= ARGV[1] then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', 10000) -- ends the other script
    return 1
  end
end
redis.call('DEL', KEYS[1])
return 0`

// An Effort determines how likely Atomicity is to notice that scripts run in the middle of others, and how long it keeps a server
// busy: 1000 reads take Redis about half a millisecond.
type Effort struct{ Rounds, Copies, Reads int }

// The efforts of a Client, which has little time, and of a check.
var (
	Little = Effort{Rounds: 2, Copies: 2, Reads: 500}
	Much   = Effort{Rounds: 5, Copies: 4, Reads: 2000}
)

// Atomicity returns a Shortcoming if one script ran in the middle of another, and nothing if none was seen to.
func (t *Trial) Atomicity(ctx context.Context, e Effort) ([]Shortcoming, error) {
	for range e.Rounds {
		cmds := make([]*redis.Cmd, e.Copies)
		var copies sync.WaitGroup
		for i := range cmds { // each on a connection of its own
			copies.Go(func() { cmds[i] = t.run(ctx, spin, strconv.Itoa(i), e.Reads) })
		}
		copies.Wait()
		for _, cmd := range cmds {
			switch interrupted, err := cmd.Int(); {
			case err != nil:
				return nil, err
			case interrupted == 1:
				return []Shortcoming{{
					Unsafe, "other commands run in the middle of a script, so two callers can hold one lock",
					"make scripts atomic (Garnet: --lua-transaction-mode; Dragonfly: without disable-atomicity): see " + serversPage, nil,
				}}, nil
			}
		}
	}
	return nil, nil
}

// eval returns the command that runs a script on the scratch key.
func (t *Trial) eval(ctx context.Context, script string, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, append([]any{"eval", script, 1, t.key}, args...)...)
	cmd.SetFirstKeyPos(FirstKey)
	return cmd
}

// run runs a script on the scratch key.
func (t *Trial) run(ctx context.Context, script string, args ...any) *redis.Cmd {
	cmd := t.eval(ctx, script, args...)
	_ = t.rdb.Process(ctx, cmd) // the error is cmd's
	return cmd
}

// ScratchTag returns a new hash tag in braces.
func ScratchTag(name string) string { return "{" + name + ":" + rand.Text()[:10] + "}" }
