package script_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/deadlock"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/test/suite"
)

// look runs look.lua. Parts of the answer without a certain order are sorted.
func look(d *scripttest.Driver) *deadlock.View {
	d.Helper()
	v, err := script.LookAnswer(d.Send(&script.Look{Keys: d.Keys}))
	if err != nil {
		d.Fatalf("the look failed: %v", err)
	}
	slices.SortFunc(v.Holders, func(a, b deadlock.Holder) int { return strings.Compare(a.Lease, b.Lease) })
	return v
}

func wantView(d *scripttest.Driver, what string, want deadlock.View) {
	d.Helper()
	if got := look(d); !reflect.DeepEqual(*got, want) {
		d.Errorf("%s: the look is\n%+v, want\n%+v", what, *got, want)
	}
}

func holders(d *scripttest.Driver, reads bool, weight int, ids ...string) (list []deadlock.Holder) {
	for _, id := range ids {
		list = append(list, deadlock.Holder{Lease: id, Inbox: d.Inbox(id), Reads: reads, Weight: weight})
	}
	return list
}

func tickets(d *scripttest.Driver, ids ...string) (list []deadlock.Ticket) {
	for _, id := range ids {
		list = append(list, deadlock.Ticket{ID: id, Inbox: d.Inbox(id)})
	}
	return list
}

func TestALookSeesWhoHasALock(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		wantView(d, "a free key", deadlock.View{})
		for what, lock := range map[string]func(id string) script.Acquired{"plain": d.Lock, "fair": d.Fair, "write": d.Write} {
			lock("a")
			lock("b") // does not matter
			wantView(d, what, deadlock.View{Holders: holders(d, false, 0, "a")})
			d.Redis.FlushAll(d.Context())
		}
		d.Lock("a")
		d.Linger("a", scripttest.Lease)
		wantView(d, "a key that only stays taken", deadlock.View{})
		d.Redis.FlushAll(d.Context())
		d.Lock("a")
		d.Redis.HSet(d.Context(), d.Keys.Holder(), "mode", "a later version's")
		wantView(d, "a hold of an unknown kind", deadlock.View{Partial: true})
	})
}

func TestALookSeesReadersAndTheWritersThatWaitForThem(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		for _, id := range []string{"a", "b", "c"} {
			d.Read(id)
		}
		d.Write("w")
		d.Read("e")
		d.Write("x")
		d.Write("y")
		d.Expire("b")
		seen := deadlock.View{Holders: holders(d, true, 0, "a", "c"), Tickets: tickets(d, "w", "x", "y")}
		wantView(d, "readers", seen)
		d.Kill("x", "y")
		d.Redis.HDel(d.Context(), d.Keys.Alive(), d.Inbox("y"))
		d.OthersBeat()
		seen.Tickets = tickets(d, "w")
		wantView(d, "two of three tickets are dead", seen)
		d.Redis.HSet(d.Context(), d.Keys.Tickets(), "#admit", "1") // as locks.lua does when there is more to do than one run does
		seen.Admits = true
		d.OthersBeat()
		wantView(d, "readers are being admitted", seen)
	})
}

func TestALookSeesPermitsAndWhoWaitsForThem(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 5, Weight: 2})
		d.AcquirePermit(scripttest.Permit{ID: "b", N: 5, Weight: 2})
		d.AcquirePermit(scripttest.Permit{ID: "h", N: 5, Weight: 4})
		d.AcquirePermit(scripttest.Permit{ID: "l", N: 4})
		seen := deadlock.View{Holders: holders(d, false, 2, "a", "b"), Tickets: tickets(d, "h", "l")}
		seen.Tickets[0].Weight, seen.Tickets[0].Permits = 4, 5
		seen.Tickets[1].Weight, seen.Tickets[1].Permits = 1, 4
		wantView(d, "permits", seen)
		field := script.PermitField + "b"
		_, rest, _ := strings.Cut(d.Redis.HGet(d.Context(), d.Keys.Holder(), field).Val(), " ")
		d.Redis.HSet(d.Context(), d.Keys.Holder(), field, "1 "+rest)
		d.Kill("h")
		seen.Holders, seen.Tickets = seen.Holders[:1], seen.Tickets[1:]
		wantView(d, "one permit has ended, and one ticket is dead", seen)
	})
}

// One id in 64 begins with a '-', and the holder of a key that only stays taken has a '-' in front as well.
func TestALookShowsAllHoldersWhateverTheirIDs(t *testing.T) {
	kinds := map[string]func(d *scripttest.Driver, id string){
		"a lock":  func(d *scripttest.Driver, id string) { d.Lock(id) },
		"readers": func(d *scripttest.Driver, id string) { d.Read(id) },
		"permits": func(d *scripttest.Driver, id string) { d.AcquirePermit(scripttest.Permit{ID: id, N: 2}) },
	}
	for name, request := range kinds {
		t.Run(name, func(t *testing.T) {
			scripttest.OnEach(t, func(d *scripttest.Driver) {
				ids := []string{"-a", "b"}
				if name == "a lock" {
					ids = ids[:1]
				}
				for _, id := range ids {
					request(d, id)
				}
				for i, id := range ids {
					wantHolders(d, ids[i:]...)
					release := script.Release{Keys: d.Keys, ID: scripttest.ID(id), Linger: time.Minute, Permit: name == "permits"}
					if got, err := script.EndedAnswer(d.Send(&release)); err != nil || got != script.Done {
						d.Errorf("release of %s: %v, %v", id, got, err)
					}
				}
				wantHolders(d)
			})
		})
	}
}

// wantHolders checks the holders in a look.
func wantHolders(d *scripttest.Driver, want ...string) {
	d.Helper()
	var got []string
	for _, h := range look(d).Holders {
		got = append(got, h.Lease)
	}
	if !slices.Equal(got, want) {
		d.Errorf("a look shows %q, want %q", got, want)
	}
}

// A key with too many holders is not read; of a long queue only the head is read.
func TestALookHasBounds(t *testing.T) {
	scripttest.OnEachCrowded(t, func(d *scripttest.Driver) {
		many := deadlock.MaxHolders
		each := func(from, to int, request func(i int)) {
			d.Untidy(func() {
				for i := from; i < to; i++ {
					request(i)
				}
			})
		}
		permits := func(i int) { d.AcquirePermit(scripttest.Permit{ID: fmt.Sprint("p", i), N: many}) }
		each(0, many/2, permits)
		if v := look(d); v.Partial || len(v.Holders) != many/2 {
			d.Errorf("of %d permits it sees %+v", many/2, v)
		}
		each(many/2, many, permits)
		wantView(d, "many permits", deadlock.View{Partial: true})
		d.Redis.FlushAll(d.Context())
		d.Read("a")
		each(0, many+2, func(i int) { d.Write(fmt.Sprint("w", i)) })
		if v := look(d); v.Partial || len(v.Tickets) != many || v.Tickets[many-1].ID != fmt.Sprint("w", many-1) {
			d.Errorf("of many writers it sees %+v", v)
		}
		d.Redis.FlushAll(d.Context())
		each(0, many, func(i int) { d.Read(fmt.Sprint("r", i)) })
		wantView(d, "many readers", deadlock.View{Partial: true})
	})
}

// Whatever another client has stored at the keys, a look only reads, and fails with a typed error or shows no extra holders.
func TestALookLeavesStrangersAlone(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		situations := map[string]func(){
			"free": func() {},
			"held": func() { d.Lock("a"); d.Lock("b") },
			"read": func() { d.Read("a"); d.Write("b"); d.Read("c") },
			"permits": func() {
				d.AcquirePermit(scripttest.Permit{ID: "a", N: 1})
				d.AcquirePermit(scripttest.Permit{ID: "b", N: 1})
			},
		}
		where := places(d)
		where["queue of permits"] = place{d.Keys.PermitQueue(), ""}
		where["tickets for permits"] = place{d.Keys.PermitTickets(), ""}
		put := strangers(d)
		for _, mode := range []string{"permit", "write"} {
			put["hash of odd holders in mode "+mode] = func(key string) error {
				return d.Redis.HSet(d.Context(), key, "mode", mode, "id", "", "inbox", "", "p:x", "theirs", "reader:x", "9 9", "p:", "").Err()
			}
		}
		put["hash of odd tickets"] = func(key string) error {
			return d.Redis.HSet(d.Context(), key, "b", "a b x d e f g", "#admit", "").Err()
		}
		put["zset of an odd ticket"] = func(key string) error { return d.Redis.ZAdd(d.Context(), key, redis.Z{Member: ""}).Err() }
		cases := 0
		for situation, prepare := range situations {
			for at, key := range where {
				for kind, put := range put {
					if cases++; !suite.Full() && cases%4 != 0 {
						continue
					}
					d.Redis.FlushAll(d.Context())
					prepare()
					d.Redis.Del(d.Context(), key.name)
					if err := put(key.name); err != nil {
						d.Fatal(err)
					}
					before := everyKey(d)
					v, err := script.LookAnswer(d.Send(&script.Look{Keys: d.Keys}))
					if err != nil && !strings.Contains(err.Error(), "WRONGTYPE") {
						d.Errorf("%s, a %s at the %s: %v", situation, kind, at, err)
					}
					if err == nil && (len(v.Holders) > 1 || len(v.Tickets) > 1) {
						d.Errorf("%s, a %s at the %s: it sees %+v", situation, kind, at, v)
					}
					if !reflect.DeepEqual(everyKey(d), before) {
						d.Errorf("%s, a %s at the %s: it has written", situation, kind, at)
					}
				}
			}
		}
	})
}

// everyKey returns all keys of the server.
func everyKey(d *scripttest.Driver) map[string]string {
	d.Helper()
	all := make(map[string]string)
	for _, key := range d.Redis.Keys(d.Context(), "*").Val() {
		all[key] = d.Redis.Dump(d.Context(), key).Val()
	}
	return all
}
