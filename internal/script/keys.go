package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Layout says where locks live in Redis.
type Layout struct {
	prefix  string
	cluster bool
	fence   any // the fencing counter's key, except in a Cluster
	alive   any // the key of the processes that wait, except in a Cluster
}

// NewLayout returns the Layout of the locks with a prefix.
func NewLayout(prefix string, cluster bool) Layout {
	return Layout{prefix: prefix, cluster: cluster, fence: prefix + fenceSuffix, alive: prefix + aliveSuffix}
}

// A KeySet is the Redis keys of one lock. All but the fencing counter, and the hash of the processes that wait, share one hash tag.
type KeySet struct {
	six [6]any // strings, as arguments of commands
}

// Where the keys stand among the six, and in the KEYS of most scripts.
const (
	holderKey = iota
	queueKey
	ticketsKey
	fenceKey
	readQueueKey
	aliveKey
)

// KeySet returns the Redis keys of the lock of a key.
func (l *Layout) KeySet(key string) KeySet {
	tag := escape(key)
	fence, alive := l.fence, l.alive
	if l.cluster { // not after l.fence: that may be the prefix of other locks
		both := l.prefix + ":{" + slotTag(slotOf(tag)) + "}"
		both += fenceSuffix + both + aliveSuffix
		cut := (len(both) + len(fenceSuffix) - len(aliveSuffix)) / 2
		fence, alive = both[:cut], both[cut:]
	}
	size := len(l.prefix) + len(":{}") + len(tag) // of the holder's key, which the others begin with
	all := l.prefix + ":{" + tag + "}" + queueSuffix + l.prefix + ":{" + tag + "}" + ticketsSuffix + l.prefix + ":{" + tag + "}" + readersSuffix
	tickets := size + len(queueSuffix)
	readers := tickets + size + len(ticketsSuffix)
	return KeySet{[...]any{all[:size], all[:tickets], all[tickets:readers], fence, all[readers:], alive}}
}

// Key is the reverse of KeySet: it returns the key whose lock has that first key, if there is one.
func (l *Layout) Key(holder string) (key string, ok bool) {
	tag, ok := strings.CutPrefix(holder, l.prefix+":{")
	if !ok || !strings.HasSuffix(tag, "}") {
		return "", false
	}
	tag = strings.TrimSuffix(tag, "}")
	key = unescape(tag)
	return key, key != "" && escape(key) == tag
}

// KeyOf is Key for any of the keys that show that a lock is held or waited for.
func (l *Layout) KeyOf(redisKey string) (key string, ok bool) {
	return l.Key(strings.TrimSuffix(redisKey, queueSuffix))
}

// KeptPlaceOf returns the key and the name of the kept place that is at redisKey, if one is.
func (l *Layout) KeptPlaceOf(redisKey string) (key, name string, ok bool) {
	lock, name, ok := strings.Cut(redisKey, "}"+keptInfix) // neither part has a brace in it
	if ok {
		key, ok = l.Key(lock + "}")
	}
	return key, unescape(name), ok
}

// KeptPattern matches the kept places of a key, as SCAN takes it.
func (l *Layout) KeptPattern(key string) string {
	s := l.KeySet(key)
	return globs.Replace(s.Kept("")) + "*"
}

// AllKeptPattern matches the kept places of all keys, as SCAN takes it.
func (l *Layout) AllKeptPattern() string { return globs.Replace(l.prefix) + ":{*}" + keptInfix + "*" }

// Pattern matches what the locks keep in Redis, as SCAN takes it.
func (l *Layout) Pattern() string { return globs.Replace(l.prefix) + ":{*}*" }

// QueuePattern matches the queues, as SCAN takes it, and perhaps what is no queue.
func (l *Layout) QueuePattern() string { return globs.Replace(l.prefix) + ":{*}:*queue" }

// QueueOf returns the key whose queue is at redisKey, if one is. Those who wait to read stand in two.
func (l *Layout) QueueOf(redisKey string) (key string, ok bool) {
	for _, suffix := range []string{queueSuffix, permitQueueSuffix} {
		if holder, found := strings.CutSuffix(redisKey, suffix); found {
			return l.Key(holder)
		}
	}
	return "", false
}

var globs = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// Inbox returns the channel of a process. Given the keys of a lock, it is one in their slot of a Cluster: it ends with the
// slot's tag, by which the scripts see that it is sharded.
func (l *Layout) Inbox(process string, keys *KeySet) string {
	name := l.InboxPrefix() + process
	if keys == nil {
		return name
	}
	tag := strings.TrimSuffix(strings.TrimPrefix(keys.Fence(), l.prefix+":"), fenceSuffix)
	return name + ":" + tag
}

// AliveOf returns the hash of the processes that wait, in the slot of an inbox.
func (l *Layout) AliveOf(inbox string) any {
	process := l.ProcessOf(inbox)
	if tag := inbox[len(l.InboxPrefix())+len(process):]; tag != "" {
		return l.prefix + tag + aliveSuffix
	}
	return l.alive
}

// InboxPrefix is what the channels of processes begin with.
func (l *Layout) InboxPrefix() string { return l.prefix + ":inbox:" }

// ProcessOf returns the process whose channel is inbox.
func (l *Layout) ProcessOf(inbox string) string { return processOf(inbox, l.InboxPrefix()) }

func processOf(inbox, prefix string) string {
	process := strings.TrimPrefix(inbox, prefix)
	if strings.HasSuffix(process, "}") {
		if i := strings.LastIndex(process, ":{"); i >= 0 {
			return process[:i]
		}
	}
	return process
}

const (
	queueSuffix   = ":queue"
	ticketsSuffix = ":tickets"
	readersSuffix = ":readqueue"
	keptInfix     = ":kept:"
	doneInfix     = ":done:"
	fenceSuffix   = ":fence"
	aliveSuffix   = ":alive"
)

// Holder is the hash that says who has the lock.
func (s *KeySet) Holder() string { return s.text(holderKey) }

func (s *KeySet) text(i int) string {
	key, _ := s.six[i].(string)
	return key
}

// Queue is the sorted set of tickets.
func (s *KeySet) Queue() string { return s.text(queueKey) }

// Tickets is the hash that says what is granted to each ticket.
func (s *KeySet) Tickets() string { return s.text(ticketsKey) }

// ReadQueue is the sorted set of tickets that wait to read.
func (s *KeySet) ReadQueue() string { return s.text(readQueueKey) }

// Fence is the fencing counter.
func (s *KeySet) Fence() string { return s.text(fenceKey) }

// Alive is the hash of the processes that wait.
func (s *KeySet) Alive() string { return s.text(aliveKey) }

// Done is the mark of an id that is over.
func (s *KeySet) Done(id string) string { return s.Holder() + doneInfix + id }

// doneOf is Done of an id.
func (s *KeySet) doneOf(id *ID) string {
	var room [200]byte // most keys are shorter
	return string(append(append(append(room[:0], s.Holder()...), doneInfix...), id.text...))
}

// Kept is where a place in the queue is kept whose caller is away.
func (s *KeySet) Kept(place string) string { return s.Holder() + keptInfix + escape(place) }

// Tick is what is noted of a tick of the job that the lock is for.
func (s *KeySet) Tick(at time.Time) string {
	return s.Holder() + ":tick:" + strconv.FormatInt(at.UnixMilli(), 10)
}

// escape percent-encodes what would cut the hash tag short or is no fun in a terminal.
func escape(key string) string {
	special := func(b byte) bool { return b < ' ' || b == 0x7f || b == '{' || b == '}' || b == '%' }
	n := 0
	for i := range len(key) {
		if special(key[i]) {
			n++
		}
	}
	if n == 0 {
		return key
	}
	var b strings.Builder
	b.Grow(len(key) + 2*n)
	for i := range len(key) {
		if special(key[i]) {
			fmt.Fprintf(&b, "%%%02X", key[i])
		} else {
			b.WriteByte(key[i])
		}
	}
	return b.String()
}

// unescape is the reverse of escape.
func unescape(tag string) string {
	var b strings.Builder
	for i := 0; i < len(tag); i++ {
		if tag[i] == '%' && i+2 < len(tag) {
			if v, err := strconv.ParseUint(tag[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(v))
				i += 2
				continue
			}
		}
		b.WriteByte(tag[i])
	}
	return b.String()
}

// ReadersTicket stands in the queue for all tickets that wait to read, which have a queue of their own.
const ReadersTicket = "#readers"

// CounterPattern finds the fencing counters of all prefixes, and perhaps keys of others.
const CounterPattern = "*:fence"

// PrefixOfCounter returns the prefix of the locks that a fencing counter is of; false if key cannot be one.
func PrefixOfCounter(key string) (prefix string, ok bool) {
	prefix, ok = strings.CutSuffix(key, fenceSuffix)
	if tagged, tag, found := strings.Cut(prefix, ":{"); found && strings.HasSuffix(tag, "}") {
		prefix = tagged // in a Cluster each slot has one
	}
	return prefix, ok && prefix != "" && !strings.ContainsAny(prefix, "{}")
}
