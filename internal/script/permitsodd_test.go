package script_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// More permits have expired than one execution removes. Taking away one whose field still exists frees nothing.
func TestAPermitThatHasEndedIsNotTakenAway(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		const n = 300
		d.AcquirePermit(scripttest.Permit{ID: "a", N: n})
		d.Untidy(func() {
			for i := range n - 1 {
				d.AcquirePermit(scripttest.Permit{ID: fmt.Sprint("b", i), N: n, Lease: time.Second})
			}
		})
		later(time.Second)
		dead := lastPermitField(d)
		p, ok := script.ParsePermit(d.Redis.HGet(d.Context(), d.Keys.Holder(), dead).Val())
		if !ok {
			d.Fatalf("the field %q is no permit", dead)
		}
		owner, _, _ := strings.Cut(p.Holder, ";")
		got, err := script.EndedAnswer(d.Send(&script.Force{Keys: d.Keys, Token: p.Token, Owner: owner, Permit: true}))
		if err != nil || got != script.NotHeld {
			d.Errorf("to take away a permit that has ended: %v, %v", got, err)
		}
		if s := d.LookAtPermits(); s.Fields[dead] == "" {
			d.Fatal("the permit that has ended was removed before it was looked for")
		}
		d.CheckPermits(true)
	})
}

// lastPermitField returns the field of the last permit that scripts find, other than a's.
func lastPermitField(d *scripttest.Driver) string {
	d.Helper()
	fields, err := d.Redis.HKeys(d.Context(), d.Keys.Holder()).Result()
	if err != nil {
		d.Fatal(err)
	}
	for _, field := range slices.Backward(fields) {
		if strings.HasPrefix(field, script.PermitField) && field != script.PermitField+scripttest.ID("a").String() {
			return field
		}
	}
	d.Fatal("there are no permits")
	return ""
}

// A field that describes no permit is removed with the permits that have expired.
func TestFieldsThatAreNoPermitsAreRemoved(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 2})
		d.AcquirePermit(scripttest.Permit{ID: "b", N: 2, Lease: time.Second})
		odd := script.PermitField + "odd"
		d.Redis.HSet(d.Context(), d.Keys.Holder(), odd, "x")
		later(time.Second)
		d.PollPermits()
		if d.Redis.HExists(d.Context(), d.Keys.Holder(), odd).Val() {
			d.Error("the field is left")
		}
		d.CheckPermits(true)
	})
}

// Only long lists of slots are left out of the description of a holder.
func TestALongOwnerDoesNotHideTheSlots(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		op := scripttest.Permit{ID: "a", N: 1}.Operation(d)
		op.Info.Owner = strings.Repeat("o", 300)
		d.Send(op)
		busy := d.AcquirePermit(scripttest.Permit{ID: "b", N: 1, Try: true}).Wait
		if len(busy.Holders) != 1 || busy.Holders[0].Slots != "0" {
			d.Errorf("in the way: %+v", busy.Holders)
		}
	})
}

// A script that was cut off may leave the hash without an expiry. The next script, with a short lease, sets an expiry that does
// not end the permits of others.
func TestAShortLeaseDoesNotEndOtherPermits(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, _ func(time.Duration)) {
		d.Tidy = false
		for name, run := range map[string]func() scripttest.Operation{
			"renewal": func() scripttest.Operation {
				return &script.Renew{Keys: d.Keys, ID: scripttest.ID("b"), Lease: time.Second}
			},
			"repeated acquire": func() scripttest.Operation {
				return scripttest.Permit{ID: "b", N: 3, Lease: time.Second}.Operation(d)
			},
			"release": func() scripttest.Operation {
				return &script.Release{Keys: d.Keys, ID: scripttest.ID("b"), Permit: true}
			},
			"poll": func() scripttest.Operation { return d.PermitPolls("b") },
		} {
			for writes := 1; writes < 20; writes++ {
				d.Redis.FlushAll(d.Context())
				d.AcquirePermit(scripttest.Permit{ID: "a", N: 3, Lease: time.Hour})
				d.AcquirePermit(scripttest.Permit{ID: "b", N: 3, Lease: time.Second})
				d.Redis.Persist(d.Context(), d.Keys.Holder())
				d.EndAfter(writes)
				var ended error
				d.Untidy(func() { ended = d.Send(run()).Err })
				d.EndAtTheEnd()
				ttl := d.Redis.PTTL(d.Context(), d.Keys.Holder()).Val()
				if ttl > 0 && ttl < time.Hour-scripttest.Blur {
					d.Errorf("%s, cut off after %d writes: the hash ends in %v, and a permit in an hour", name, writes, ttl)
				}
				if ended == nil {
					break
				}
			}
		}
	})
}

// A foreign value at the queue or the tickets is found before the first write.
func TestAStrangerAtTheQueueOfASemaphoreRefusesAllWrites(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		ctx := d.Context()
		for _, key := range []string{d.Keys.PermitQueue(), d.Keys.PermitTickets()} {
			for what, op := range map[string]scripttest.Operation{"free": nil, "busy": scripttest.Permit{ID: "a", N: 1}.Operation(d)} {
				d.Redis.FlushAll(ctx)
				if op != nil {
					d.Send(op)
				}
				d.Redis.Set(ctx, key, "theirs", 0)
				look := func() string {
					keys := d.Redis.Keys(ctx, "*").Val()
					slices.Sort(keys)
					return fmt.Sprint(keys, d.Redis.HGetAll(ctx, d.Keys.Holder()).Val(), d.Redis.Get(ctx, key).Val(), d.Redis.PTTL(ctx, key).Val())
				}
				before := look()
				for name, op := range map[string]scripttest.Operation{
					"acquire": scripttest.Permit{ID: "b", N: 1}.Operation(d),
					"poll":    d.PermitPolls("b"),
				} {
					if err := d.Send(op).Err; err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
						d.Errorf("%s, %s at %s: %v", what, name, key, err)
					}
					if after := look(); after != before {
						d.Errorf("%s, %s at %s: there was %s, and is %s", what, name, key, before, after)
					}
				}
			}
		}
		d.Redis.FlushAll(ctx)
	})
}
