package engine

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

// A part is what one of a lock's keys holds.
type part struct {
	kind, ours string            // its type, and that of what we keep there
	fields     map[string]string // of a hash, a sorted set, or the only one
	ttl        time.Duration
}

func (p *part) exists() bool    { return p.kind != "none" }
func (p *part) isStrange() bool { return p.exists() && p.kind != p.ours }

// same reports whether q holds the same; some fields may differ.
func (p *part) same(q *part, but ...string) bool {
	a, b := maps.Clone(p.fields), maps.Clone(q.fields)
	for _, field := range but {
		delete(a, field)
		delete(b, field)
	}
	return p.kind == q.kind && maps.Equal(a, b)
}

// whole reads a field as a number that the scripts may have written.
func (p *part) whole(field string) (int64, bool) { return wholeNumber(p.fields[field]) }

func wholeNumber(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n <= maxToken && strings.Trim(text, "0123456789") == ""
}

// inOrder returns the members of a sorted set.
func (p *part) inOrder() []string {
	ids := slices.Collect(maps.Keys(p.fields))
	slices.SortFunc(ids, func(a, b string) int {
		x, _ := strconv.ParseFloat(p.fields[a], 64)
		y, _ := strconv.ParseFloat(p.fields[b], 64)
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

// A scene is what the lock's keys hold at one time.
type scene struct {
	at                                   time.Time // by this process' clock
	now                                  time.Time // by the server's
	holder, queue, crowd, tickets, fence part
	kept                                 part // of the ticket t
}

func (s *scene) parts() map[string]*part {
	return map[string]*part{"holder": &s.holder, "queue": &s.queue, "queue of readers": &s.crowd, "tickets": &s.tickets, "counter": &s.fence, "kept place": &s.kept}
}

func (s *scene) String() string {
	return fmt.Sprintf("holder %v, queue %v, readers' queue %v, tickets %v, counter %v, kept place %v",
		s.holder, s.queue, s.crowd, s.tickets, s.fence, s.kept)
}

// holds is the id that has the lock for itself; "" if none.
func (s *scene) holds() string {
	if s.holder.isStrange() || s.holder.fields["mode"] == core.Read.String() {
		return ""
	}
	return s.holder.fields["id"]
}

// isRead reports whether the lock is held for reading.
func (s *scene) isRead() bool {
	_, isToken := s.holder.whole("token")
	_, isNext := s.holder.whole("next")
	return s.holder.kind == "hash" && s.holder.fields["mode"] == core.Read.String() && isToken && isNext
}

// A readerField is what the holder's hash has of a reader.
type readerField struct {
	ends                time.Time
	since               int64 // µs
	inbox, owner, trace string
}

// readers are those whose hold is not over.
func (s *scene) readers() map[string]readerField {
	all := make(map[string]readerField)
	if !s.isRead() {
		return all
	}
	for field, value := range s.holder.fields {
		id, isReader := strings.CutPrefix(field, "reader:")
		words := append(strings.Split(value, " "), "", "", "", "", "")
		ends, ok := wholeNumber(words[0])
		if !isReader || !ok || ends <= s.now.UnixMilli() || !strings.Contains(value, " ") {
			continue
		}
		since, _ := strconv.ParseInt(words[1], 10, 64)
		all[id] = readerField{ends: time.UnixMilli(ends), since: since, inbox: words[2], owner: words[3], trace: words[4]}
	}
	return all
}

// has reports whether id has the lock, in whatever way.
func (s *scene) has(id string) bool {
	_, reads := s.readers()[id]
	return reads || id != "" && s.holds() == id
}

// waits reports whether id has a ticket.
func (s *scene) waits(id string) bool {
	_, writes := s.queue.fields[id]
	_, reads := s.crowd.fields[id]
	return writes && !s.queue.isStrange() || reads && !s.crowd.isStrange()
}

// writers are the tickets that exclude others, in their order.
func (s *scene) writers() []string {
	return slices.DeleteFunc(s.queue.inOrder(), func(id string) bool { return id == crowdTicket })
}

// counter is the fencing counter; not ok if it cannot be one.
func (s *scene) counter() (last int64, ok bool) {
	if !s.fence.exists() {
		return 0, true
	}
	last, ok = s.fence.whole("")
	return last, ok && !s.fence.isStrange()
}

// look reads the lock's keys.
func (d *desk) look() *scene {
	d.Helper()
	sc := &scene{at: time.Now()}
	ctx := d.Context()
	keys := []string{d.name.holder, d.name.queue(), d.name.readers(), d.name.tickets(), d.name.fence.(string), d.name.kept("t")}
	parts := []*part{&sc.holder, &sc.queue, &sc.crowd, &sc.tickets, &sc.fence, &sc.kept}
	ours := []string{"hash", "zset", "zset", "hash", "string", "string"}
	var kinds [6]*redis.StatusCmd
	var ttls [6]*redis.DurationCmd
	var now *redis.TimeCmd
	_, err := d.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		now = p.Time(ctx)
		for i, key := range keys {
			kinds[i], ttls[i] = p.Type(ctx, key), p.PTTL(ctx, key)
		}
		return nil
	})
	if err != nil {
		d.Fatal(err)
	}
	sc.now = now.Val()
	for i, p := range parts {
		p.kind, p.ours, p.ttl = kinds[i].Val(), ours[i], ttls[i].Val()
		if p.fields, err = d.fieldsOf(keys[i], p.kind); err != nil {
			d.Fatal(err)
		}
	}
	return sc
}

func (d *desk) fieldsOf(key, kind string) (fields map[string]string, err error) {
	ctx := d.Context()
	switch kind {
	case "hash":
		return d.rdb.HGetAll(ctx, key).Result()
	case "string":
		return map[string]string{"": d.rdb.Get(ctx, key).Val()}, nil
	case "zset":
		fields = make(map[string]string)
		var members []redis.Z
		members, err = d.rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
		for _, z := range members {
			fields[z.Member.(string)] = fmt.Sprint(z.Score)
		}
	case "list":
		fields = map[string]string{"": strings.Join(d.rdb.LRange(ctx, key, 0, -1).Val(), " ")}
	case "set":
		fields = map[string]string{"": strings.Join(slices.Sorted(slices.Values(d.rdb.SMembers(ctx, key).Val())), " ")}
	}
	return fields, err
}
