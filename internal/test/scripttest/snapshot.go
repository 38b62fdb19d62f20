package scripttest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// A Part is the content of one of a lock's keys in Redis.
type Part struct {
	Type   string            // its Redis type
	Fields map[string]string // of a hash or a sorted set; any other value has the field ""
	TTL    time.Duration

	ours string // the type that the scripts use
}

// Exists reports whether there is such a key.
func (p *Part) Exists() bool { return p.Type != "none" }

// NeverExpires reports whether there is such a key and it has no TTL. A TTL of 0 ends within a millisecond.
func (p *Part) NeverExpires() bool { return p.Exists() && p.TTL == -1 }

// IsStrange reports whether another client must have written it.
func (p *Part) IsStrange() bool { return p.Exists() && p.Type != p.ours }

// Same reports whether q has the same content; some fields may differ.
func (p *Part) Same(q *Part, but ...string) bool {
	a, b := maps.Clone(p.Fields), maps.Clone(q.Fields)
	for _, field := range but {
		delete(a, field)
		delete(b, field)
	}
	return p.Type == q.Type && maps.Equal(a, b)
}

// Digits parses a field as a number that the scripts may have written.
func (p *Part) Digits(field string) (int64, bool) { return Digits(p.Fields[field]) }

// Digits parses a number that the scripts may have written.
func Digits(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n <= MaxToken && strings.Trim(text, "0123456789") == ""
}

// InOrder returns the members of a sorted set.
func (p *Part) InOrder() []string {
	ids := slices.Collect(maps.Keys(p.Fields))
	slices.SortFunc(ids, func(a, b string) int {
		x, _ := strconv.ParseFloat(p.Fields[a], 64)
		y, _ := strconv.ParseFloat(p.Fields[b], 64)
		if x != y && !math.IsNaN(x) && !math.IsNaN(y) {
			if x < y {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return ids
}

// A Snapshot is the content of the lock's keys at one time.
type Snapshot struct {
	At  time.Time // by this process' clock
	Now time.Time // by the server's
	End time.Time // the server's after the TTLs were read

	Holder, Queue, ReadQueue, Tickets, Fence Part
	Kept                                     Part // the kept place with the name t
	Alive                                    Part // the processes that wait
}

// Parts returns all parts by name.
func (s *Snapshot) Parts() map[string]*Part {
	return map[string]*Part{
		"holder": &s.Holder, "queue": &s.Queue, "queue of readers": &s.ReadQueue, "tickets": &s.Tickets,
		"counter": &s.Fence, "kept place": &s.Kept, "processes": &s.Alive,
	}
}

func (s *Snapshot) String() string {
	return fmt.Sprintf("holder %v, queue %v, readers' queue %v, tickets %v, counter %v, kept place %v",
		s.Holder, s.Queue, s.ReadQueue, s.Tickets, s.Fence, s.Kept)
}

// HolderID returns the id that holds the lock exclusively; "" if none.
func (s *Snapshot) HolderID() string {
	if s.Holder.IsStrange() || s.Holder.Fields["mode"] == core.Read.String() {
		return ""
	}
	return s.Holder.Fields["id"]
}

// IsRead reports whether the lock is held for reading.
func (s *Snapshot) IsRead() bool {
	_, isToken := s.Holder.Digits("token")
	_, isNext := s.Holder.Digits("next")
	return s.Holder.Type == "hash" && s.Holder.Fields["mode"] == core.Read.String() && isToken && isNext
}

// A Reader is a reader's data in the holder's hash.
type Reader struct {
	Ends                time.Time
	Since               int64 // µs
	Inbox, Owner, Trace string
}

// Readers returns the readers whose holds have not expired.
func (s *Snapshot) Readers() map[string]Reader {
	all := make(map[string]Reader)
	if !s.IsRead() {
		return all
	}
	for field, value := range s.Holder.Fields {
		id, isReader := strings.CutPrefix(field, "reader:")
		words := append(strings.Split(value, " "), "", "", "", "", "")
		ends, ok := Digits(words[0])
		if !isReader || !ok || ends <= s.Now.UnixMilli() || !strings.Contains(value, " ") {
			continue
		}
		since, _ := strconv.ParseInt(words[1], 10, 64)
		all[id] = Reader{Ends: time.UnixMilli(ends), Since: since, Inbox: words[2], Owner: words[3], Trace: words[4]}
	}
	return all
}

// Has reports whether id holds the lock, in any mode.
func (s *Snapshot) Has(id string) bool {
	_, reads := s.Readers()[id]
	return reads || id != "" && s.HolderID() == id
}

// Waits reports whether id has a ticket.
func (s *Snapshot) Waits(id string) bool {
	_, writes := s.Queue.Fields[id]
	_, reads := s.ReadQueue.Fields[id]
	return writes && !s.Queue.IsStrange() || reads && !s.ReadQueue.IsStrange()
}

// Writers returns the tickets that exclude others, in order.
func (s *Snapshot) Writers() []string {
	return slices.DeleteFunc(s.Queue.InOrder(), func(id string) bool { return id == script.ReadersTicket })
}

// Counter returns the fencing counter; not ok if the value cannot be one.
func (s *Snapshot) Counter() (last int64, ok bool) {
	if !s.Fence.Exists() {
		return 0, true
	}
	last, ok = s.Fence.Digits("")
	return last, ok && !s.Fence.IsStrange()
}

// Look reads the lock's keys.
func (d *Driver) Look() *Snapshot {
	d.Helper()
	sc := &Snapshot{At: time.Now()}
	ctx := d.Context()
	keys := []string{d.Keys.Holder(), d.Keys.Queue(), d.Keys.ReadQueue(), d.Keys.Tickets(), d.Keys.Fence(), d.Keys.Kept("t"), d.Keys.Alive()}
	parts := []*Part{&sc.Holder, &sc.Queue, &sc.ReadQueue, &sc.Tickets, &sc.Fence, &sc.Kept, &sc.Alive}
	ours := []string{"hash", "zset", "zset", "hash", "string", "string", "hash"}
	var types [7]*redis.StatusCmd
	var ttls [7]*redis.DurationCmd
	var now, end *redis.TimeCmd
	_, err := d.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		now = p.Time(ctx)
		for i, key := range keys {
			types[i], ttls[i] = p.Type(ctx, key), p.PTTL(ctx, key)
		}
		end = p.Time(ctx)
		return nil
	})
	isMissing := func(err error) bool { return redis.HasErrorPrefix(err, "ASK") } // in a moving slot
	if err != nil && !isMissing(err) {
		d.Fatal(err)
	}
	sc.Now, sc.End = now.Val(), end.Val()
	for i, p := range parts {
		p.Type, p.ours, p.TTL = types[i].Val(), ours[i], ttls[i].Val()
		if isMissing(types[i].Err()) {
			p.Type, p.TTL = "none", -2
		}
		if p.Fields, err = d.fieldsOf(keys[i], p.Type); err != nil {
			d.Fatal(err)
		}
		if p.Exists() && len(p.Fields) == 0 { // it has expired in between
			p.Type, p.TTL = "none", -2
		}
	}
	return sc
}

func (d *Driver) fieldsOf(key, typ string) (fields map[string]string, err error) {
	ctx := d.Context()
	switch typ {
	case "hash":
		return d.Redis.HGetAll(ctx, key).Result()
	case "string":
		text, err := d.Redis.Get(ctx, key).Result()
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		return map[string]string{"": text}, err
	case "zset":
		fields = make(map[string]string)
		var members []redis.Z
		members, err = d.Redis.ZRangeWithScores(ctx, key, 0, -1).Result()
		for _, z := range members {
			fields[z.Member.(string)] = fmt.Sprint(z.Score)
		}
	case "list":
		fields = map[string]string{"": strings.Join(d.Redis.LRange(ctx, key, 0, -1).Val(), " ")}
	case "set":
		fields = map[string]string{"": strings.Join(slices.Sorted(slices.Values(d.Redis.SMembers(ctx, key).Val())), " ")}
	}
	return fields, err
}
