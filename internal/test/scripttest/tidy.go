package scripttest

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// Blur is how far the server's clock may advance in a script or between two commands on a busy machine; times in tests differ by
// more.
const Blur = 500 * time.Millisecond

// Disorder returns the faults of keys that only the scripts have written to.
func (s *Snapshot) Disorder() (wrong []string) {
	fault := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for name, p := range s.Parts() {
		switch {
		case p.IsStrange():
			fault("the %s is a %s", name, p.Type)
		case p.NeverExpires() && p != &s.Fence:
			fault("the %s never expires", name)
		}
	}
	if s.Holder.Fields["mode"] != core.Permit.String() { // otherwise see Permits
		s.readersInOrder(fault)
	}
	s.queueInOrder(fault)
	return wrong
}

// readersInOrder checks the holder's hash of a read lock.
func (s *Snapshot) readersInOrder(fault func(string, ...any)) {
	last, ok := s.Counter()
	if !ok {
		fault("the counter is none")
	}
	if _, ok := s.Kept.Digits(""); s.Kept.Exists() && !ok {
		fault("the kept place is %q", s.Kept.Fields[""])
	}
	if s.Holder.Fields["mode"] != core.Read.String() {
		if token, ok := s.Holder.Digits("token"); s.Holder.Exists() && (!ok || token < 1 || token > last) {
			fault("the token is %q, the counter %d", s.Holder.Fields["token"], last)
		}
		return
	}
	token, isToken := s.Holder.Digits("token")
	if !isToken || token < 1 || token > last {
		fault("the readers' token is %q, the counter %d", s.Holder.Fields["token"], last)
	}
	next, isNext := s.Holder.Digits("next")
	if !isNext {
		fault("when to look for readers that are over is %q", s.Holder.Fields["next"])
	}
	for field, value := range s.Holder.Fields {
		switch id, isReader := strings.CutPrefix(field, "reader:"); {
		case isReader:
			if len(strings.Split(value, " ")) != 5 {
				fault("the reader %s is %q", id, value)
			}
		case field != "mode" && field != "token" && field != "next" && field != "wanted":
			fault("among the readers is %q", field)
		}
	}
	for id, r := range s.Readers() {
		if r.Ends.UnixMilli() < next {
			fault("%s ends before anybody looks", id)
		}
		if s.End.Add(s.Holder.TTL).Before(r.Ends.Add(-Blur)) {
			fault("the key ends %v before %s", r.Ends.Sub(s.End.Add(s.Holder.TTL)), id)
		}
		if s.Waits(id) {
			fault("%s reads and waits", id)
		}
	}
	if len(s.Writers()) > 0 && s.Holder.Fields["wanted"] != "1" {
		fault("the readers do not know that somebody waits to write")
	}
}

// queueInOrder checks the two queues and their tickets.
func (s *Snapshot) queueInOrder(fault func(string, ...any)) {
	place, standsIn := s.Queue.Fields[script.ReadersTicket]
	first := ""
	if readers := s.ReadQueue.InOrder(); len(readers) > 0 {
		first = s.ReadQueue.Fields[readers[0]]
	}
	if place != first {
		fault("for readers that wait at %q somebody stands in at %q", first, place)
	}
	if s.Tickets.Exists() && !s.Queue.Exists() {
		fault("there are tickets, and nobody waits")
	}
	if _, marked := s.Tickets.Fields["#admit"]; marked && !standsIn {
		fault("readers are to be admitted, and none waits")
	}
	if id := s.HolderID(); id != "" && s.Waits(id) {
		fault("%s has the lock and waits", id)
	}
	for _, id := range append(s.Writers(), s.ReadQueue.InOrder()...) {
		fields := strings.Fields(s.Tickets.Fields[id])
		if len(fields) < 6 {
			fault("the ticket of %s is %q", id, s.Tickets.Fields[id])
			continue
		}
		if _, reads := s.ReadQueue.Fields[id]; reads != (fields[0] == core.Read.String()) {
			fault("%s, who waits for a lock of the mode %s, stands in the wrong queue", id, fields[0])
		}
	}
	for field := range s.Tickets.Fields {
		if !strings.HasPrefix(field, "#") && !s.Waits(field) {
			fault("the field %s is left of a ticket", field)
		}
	}
}

// CheckTidy fails the test if the scripts have not left the lock's keys in order, or if a key of the deployment never expires.
func (d *Driver) CheckTidy() {
	d.Helper()
	if sc := d.Look(); len(sc.Disorder()) > 0 {
		d.Fatalf("%s\n%v", strings.Join(sc.Disorder(), "\n"), sc)
	}
	d.CheckPermits(false)
	const list = `local all = {}
		for _, key in ipairs(redis.call('KEYS', 'lockmw:*')) do
			all[#all + 1] = key
			all[#all + 1] = tostring(redis.call('PTTL', key))
		end
		return all`
	all, err := d.Redis.Eval(d.Context(), list, nil).StringSlice()
	if err != nil {
		d.Fatal(err)
	}
	for i := 0; i < len(all); i += 2 {
		if key, ttl := all[i], all[i+1]; strings.HasPrefix(ttl, "-") && key != d.Keys.Fence() {
			d.Fatalf("%s never expires", key)
		}
	}
}

// WantNothingLeft checks that the server has only the counter, the processes that have waited recently, done marks and kept
// places.
func (d *Driver) WantNothingLeft() { d.Helper(); d.WantNothingLeftBut("") }

// WantNothingLeftBut is WantNothingLeft apart from one more key.
func (d *Driver) WantNothingLeftBut(known string) {
	d.Helper()
	keys, err := d.Redis.Keys(d.Context(), "*").Result()
	if err != nil {
		d.Fatal(err)
	}
	for _, key := range keys {
		if key != known && key != d.Keys.Fence() && key != d.Keys.Alive() && !strings.Contains(key, "}:done:") && !strings.Contains(key, "}:kept:") {
			d.Errorf("%s is left behind", key)
		}
	}
}
