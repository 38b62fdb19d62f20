package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/internal/transport"
)

// A Layout makes the Redis keys and channels of all locks with one prefix.
type Layout struct {
	prefix   string
	topology transport.Topology
	fence    any // key of the fencing counter, if there are no slots
	alive    any // key of the hash of live processes, if there are no slots
}

// NewLayout returns the Layout for a prefix. If the servers have slots, each slot has a fencing counter, a hash of live processes
// and an inbox for each process; otherwise all locks share them.
func NewLayout(prefix string, t transport.Topology) Layout {
	return Layout{prefix: prefix, topology: t, fence: prefix + fenceSuffix, alive: prefix + aliveSuffix}
}

// A KeySet contains the Redis keys of one lock. All share one hash tag, except the fencing counter and the hash of live
// processes.
type KeySet struct {
	six [6]any // strings, as arguments of commands
}

// Positions of the keys in the array, and in the KEYS of most scripts.
const (
	holderKey = iota
	queueKey
	ticketsKey
	fenceKey
	readQueueKey
	aliveKey
)

// KeySet returns the Redis keys of the lock with this key.
func (l *Layout) KeySet(key string) KeySet {
	tag := escape(key)
	fence, alive := l.fence, l.alive
	if l.topology.HasSlots() { // not derived from l.fence, which may be the prefix of other locks
		both := l.slotPrefix(slotTag(slotOf(tag)))
		both += fenceSuffix + both + aliveSuffix
		cut := (len(both) + len(fenceSuffix) - len(aliveSuffix)) / 2
		fence, alive = both[:cut], both[cut:]
	}
	size := len(l.prefix) + len(":{}") + len(tag) // of the holder's key, with which the other keys begin
	all := l.prefix + ":{" + tag + "}" + queueSuffix + l.prefix + ":{" + tag + "}" + ticketsSuffix + l.prefix + ":{" + tag + "}" + readersSuffix
	tickets := size + len(queueSuffix)
	readers := tickets + size + len(ticketsSuffix)
	return KeySet{[...]any{all[:size], all[:tickets], all[tickets:readers], fence, all[readers:], alive}}
}

// Key is the reverse of KeySet: it returns the key of the lock whose holder key is given; false if there is none.
func (l *Layout) Key(holder string) (key string, ok bool) {
	tag, ok := strings.CutPrefix(holder, l.prefix+":{")
	if !ok || !strings.HasSuffix(tag, "}") {
		return "", false
	}
	tag = strings.TrimSuffix(tag, "}")
	key = unescape(tag)
	return key, key != "" && escape(key) == tag
}

// KeyOf is like Key, for the holder key or the queue of a lock.
func (l *Layout) KeyOf(redisKey string) (key string, ok bool) {
	return l.Key(strings.TrimSuffix(redisKey, queueSuffix))
}

// KeptPlaceOf returns the key and the name of the kept place at redisKey; false if that is not a kept place.
func (l *Layout) KeptPlaceOf(redisKey string) (key, name string, ok bool) {
	lock, name, ok := strings.Cut(redisKey, "}"+keptInfix) // neither part contains a brace
	if ok {
		key, ok = l.Key(lock + "}")
	}
	return key, unescape(name), ok
}

// KeptPattern returns a SCAN pattern for the kept places of a key.
func (l *Layout) KeptPattern(key string) string {
	s := l.KeySet(key)
	return globs.Replace(s.Kept("")) + "*"
}

// AllKeptPattern returns a SCAN pattern for the kept places of all keys.
func (l *Layout) AllKeptPattern() string { return globs.Replace(l.prefix) + ":{*}" + keptInfix + "*" }

// Pattern returns a SCAN pattern for the keys of locks; it may match other keys.
func (l *Layout) Pattern() string { return globs.Replace(l.prefix) + ":{*}*" }

// QueuePattern returns a SCAN pattern for queues; it may match other keys.
func (l *Layout) QueuePattern() string { return globs.Replace(l.prefix) + ":{*}:*queue" }

// QueueOf returns the key whose queue is at redisKey; false if that is not a queue. It ignores the queues of readers, because
// tickets that wait to read are also represented in the main queue.
func (l *Layout) QueueOf(redisKey string) (key string, ok bool) {
	for _, suffix := range []string{queueSuffix, permitQueueSuffix} {
		if holder, found := strings.CutSuffix(redisKey, suffix); found {
			return l.Key(holder)
		}
	}
	return "", false
}

var globs = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// Inbox returns the channel of a process. If keys is not nil, it is the channel in the slot of that lock. In a Cluster it is a
// sharded channel: its name ends with the slot's tag, by which the scripts recognise it. A proxy may not know sharded channels, so
// behind a proxy plainSuffix follows.
func (l *Layout) Inbox(process string, keys *KeySet) string {
	name := l.InboxPrefix() + process
	if keys == nil {
		return name
	}
	name += ":" + strings.TrimSuffix(strings.TrimPrefix(keys.Fence(), l.prefix+":"), fenceSuffix)
	if l.topology.Sharded {
		name += plainSuffix
	}
	return name
}

// AliveOf returns the key of the hash of live processes in the slot of an inbox.
func (l *Layout) AliveOf(inbox string) any {
	process := l.ProcessOf(inbox)
	if tag := inbox[len(l.InboxPrefix())+len(process):]; tag != "" {
		return l.prefix + strings.TrimSuffix(tag, plainSuffix) + aliveSuffix
	}
	return l.alive
}

// InboxPrefix returns the beginning of the channels of all processes.
func (l *Layout) InboxPrefix() string { return l.prefix + ":inbox:" }

// ProcessOf returns the process whose channel is inbox.
func (l *Layout) ProcessOf(inbox string) string { return processOf(inbox, l.InboxPrefix()) }

func processOf(inbox, prefix string) string {
	process := strings.TrimPrefix(inbox, prefix)
	if strings.HasSuffix(process, "}") || strings.HasSuffix(process, "}"+plainSuffix) {
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
	plainSuffix   = ":plain" // of an inbox
)

// Holder returns the key of the hash of the holder, of all readers, or of all permits.
func (s *KeySet) Holder() string { return s.text(holderKey) }

func (s *KeySet) text(i int) string {
	key, _ := s.six[i].(string)
	return key
}

// Queue returns the key of the sorted set of tickets.
func (s *KeySet) Queue() string { return s.text(queueKey) }

// Tickets returns the key of the hash with the texts of the tickets.
func (s *KeySet) Tickets() string { return s.text(ticketsKey) }

// ReadQueue returns the key of the sorted set of tickets that wait to read.
func (s *KeySet) ReadQueue() string { return s.text(readQueueKey) }

// Fence returns the key of the fencing counter.
func (s *KeySet) Fence() string { return s.text(fenceKey) }

// Alive returns the key of the hash of live processes.
func (s *KeySet) Alive() string { return s.text(aliveKey) }

// Done returns the key of the done mark of an id.
func (s *KeySet) Done(id string) string { return s.Holder() + doneInfix + id }

// doneOf is like Done.
func (s *KeySet) doneOf(id *ID) string {
	var room [200]byte // most keys are shorter
	return string(append(append(append(room[:0], s.Holder()...), doneInfix...), id.text...))
}

// Kept returns the key of a kept place in the queue.
func (s *KeySet) Kept(place string) string { return s.Holder() + keptInfix + escape(place) }

// Tick returns the key of the note of a tick. The lock is the lock of its job.
func (s *KeySet) Tick(at time.Time) string {
	return s.Holder() + ":tick:" + strconv.FormatInt(at.UnixMilli(), 10)
}

// escape percent-encodes braces, which would cut the hash tag short, and control bytes.
func escape(key string) string {
	special := func(r rune) bool { return r < ' ' || r == 0x7f || r == '{' || r == '}' || r == '%' }
	if !strings.ContainsFunc(key, special) {
		return key
	}
	var b strings.Builder
	for i := range len(key) {
		if special(rune(key[i])) {
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

// ReadersTicket is in the main queue for all tickets that wait to read, which have their own queue.
const ReadersTicket = "#readers"

// CounterPattern is a SCAN pattern for the fencing counters of all prefixes; it may match other keys.
const CounterPattern = "*:fence"

// PrefixOfCounter returns the prefix of the locks that use a fencing counter; false if key cannot be a fencing counter.
func PrefixOfCounter(key string) (prefix string, ok bool) {
	prefix, ok = strings.CutSuffix(key, fenceSuffix)
	if tagged, tag, found := strings.Cut(prefix, ":{"); found && strings.HasSuffix(tag, "}") {
		prefix = tagged // each slot may have a counter
	}
	return prefix, ok && prefix != "" && !strings.ContainsAny(prefix, "{}")
}
