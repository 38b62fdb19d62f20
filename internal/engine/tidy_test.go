package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
)

// blur is by how much the server's clock may differ between two commands of a pipeline, on a busy
// machine; times in tests differ by more.
const blur = 500 * time.Millisecond

// disorder says what is wrong with keys that only the scripts have written to.
func (s *scene) disorder() (wrong []string) {
	fault := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for name, p := range s.parts() {
		switch {
		case p.isStrange():
			fault("the %s is a %s", name, p.kind)
		case p.exists() && p.ttl <= 0 && p != &s.fence:
			fault("the %s never expires", name)
		}
	}
	s.readersInOrder(fault)
	s.queueInOrder(fault)
	return wrong
}

// readersInOrder checks the holder's hash of a lock that is held for reading.
func (s *scene) readersInOrder(fault func(string, ...any)) {
	last, ok := s.counter()
	if !ok {
		fault("the counter is none")
	}
	if _, ok := s.kept.whole(""); s.kept.exists() && !ok {
		fault("the kept place is %q", s.kept.fields[""])
	}
	if s.holder.fields["mode"] != core.Read.String() {
		if token, ok := s.holder.whole("token"); s.holder.exists() && (!ok || token < 1 || token > last) {
			fault("the token is %q, the counter %d", s.holder.fields["token"], last)
		}
		return
	}
	token, isToken := s.holder.whole("token")
	if !isToken || token < 1 || token > last {
		fault("the readers' token is %q, the counter %d", s.holder.fields["token"], last)
	}
	next, isNext := s.holder.whole("next")
	if !isNext {
		fault("when to look for readers that are over is %q", s.holder.fields["next"])
	}
	for field, value := range s.holder.fields {
		switch id, isReader := strings.CutPrefix(field, "reader:"); {
		case isReader:
			if len(strings.Split(value, " ")) != 5 {
				fault("the reader %s is %q", id, value)
			}
		case field != "mode" && field != "token" && field != "next" && field != "wanted":
			fault("among the readers is %q", field)
		}
	}
	for id, r := range s.readers() {
		if r.ends.UnixMilli() < next {
			fault("%s ends before anybody looks", id)
		}
		if s.now.Add(s.holder.ttl).Before(r.ends.Add(-blur)) {
			fault("the key ends %v before %s", r.ends.Sub(s.now.Add(s.holder.ttl)), id)
		}
		if s.waits(id) {
			fault("%s reads and waits", id)
		}
	}
	if len(s.writers()) > 0 && s.holder.fields["wanted"] != "1" {
		fault("the readers do not know that somebody waits to write")
	}
}

// queueInOrder checks the two queues and their tickets.
func (s *scene) queueInOrder(fault func(string, ...any)) {
	place, standsIn := s.queue.fields[crowdTicket]
	first := ""
	if crowd := s.crowd.inOrder(); len(crowd) > 0 {
		first = s.crowd.fields[crowd[0]]
	}
	if place != first {
		fault("for readers that wait at %q somebody stands in at %q", first, place)
	}
	if s.tickets.exists() && !s.queue.exists() {
		fault("there are tickets, and nobody waits")
	}
	if _, marked := s.tickets.fields["#admit"]; marked && !standsIn {
		fault("readers are to be let in, and none waits")
	}
	if id := s.holds(); id != "" && s.waits(id) {
		fault("%s has the lock and waits", id)
	}
	for _, id := range append(s.writers(), s.crowd.inOrder()...) {
		fields := strings.Fields(s.tickets.fields[id])
		if len(fields) < 6 || s.tickets.fields["@"+id] == "" {
			fault("the ticket of %s is %q", id, s.tickets.fields[id])
			continue
		}
		if _, reads := s.crowd.fields[id]; reads != (fields[0] == core.Read.String()) {
			fault("%s, who waits for a lock of the mode %s, stands in the wrong queue", id, fields[0])
		}
	}
	for field := range s.tickets.fields {
		id := strings.TrimPrefix(field, "@")
		if !strings.HasPrefix(field, "#") && !s.waits(id) {
			fault("the field %s is left of a ticket", field)
		}
	}
}

// checkTidy fails the test if the keys of the lock are not as the scripts should leave them, or one of the
// deployment's never expires.
func (d *desk) checkTidy() {
	d.Helper()
	if sc := d.look(); len(sc.disorder()) > 0 {
		d.Fatalf("%s\n%v", strings.Join(sc.disorder(), "\n"), sc)
	}
	const list = `local all = {}
		for _, key in ipairs(redis.call('KEYS', 'lockmw:*')) do
			all[#all + 1] = key
			all[#all + 1] = tostring(redis.call('PTTL', key))
		end
		return all`
	all, err := d.rdb.Eval(d.Context(), list, nil).StringSlice()
	if err != nil {
		d.Fatal(err)
	}
	for i := 0; i < len(all); i += 2 {
		if key, ttl := all[i], all[i+1]; strings.HasPrefix(ttl, "-") && key != d.name.fence.(string) {
			d.Fatalf("%s never expires", key)
		}
	}
}

// wantNothingLeft checks that the server has the counter only, and what it is to remember of ids that
// are over and of places that are kept.
func (d *desk) wantNothingLeft() {
	d.Helper()
	keys, err := d.rdb.Keys(d.Context(), "*").Result()
	if err != nil {
		d.Fatal(err)
	}
	for _, key := range keys {
		if key != d.name.fence.(string) && !strings.Contains(key, "}:done:") && !strings.Contains(key, "}:kept:") {
			d.Errorf("%s is left behind", key)
		}
	}
}
