package verify

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/process"
)

// On a busy machine the processes stand still while their server is slow. That excuses a lock for one of the times.
func TestATimeExcusesALockOnce(t *testing.T) {
	const s = time.Second
	got := report{Report: judge.Report{At: 20 * s}, Stalls: []judge.Interval{{From: 12 * s, To: 15 * s}}}
	slow := []judge.Interval{{From: 13 * s, To: 16 * s}}
	if late := tooLate(s, 10*s, got, slow, slow); late != 5*s-s/50 {
		t.Errorf("%v too late, want %v: 10s without the lease and without 4s of delays", late, 5*s-s/50)
	}
}

// obedient returns a member that answers orders: it calls f with each of them, in this goroutine.
func obedient(r *run, f func(*member, order)) *member {
	m := &member{run: r, over: make(chan struct{})}
	m.child = &process.Child{Orders: json.NewEncoder(writerFunc(func(b []byte) {
		var o order
		_ = json.Unmarshal(b, &o)
		f(m, o)
	}))}
	return m
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

// A holder that was disturbed must notice the end of its lease. If its heir dies before, or gets the lock too early, the lease may
// never end.
func TestAHolderMustNoticeTheEndOfItsLease(t *testing.T) {
	for _, tt := range []struct {
		name  string
		dies  bool          // the heir
		lease time.Duration // that is left as the heir gets the lock
		want  bool          // a finding
	}{
		{"the heir gets the lock", false, 0, true},
		{"the heir gets it before the lease has ended", false, sec, false},
		{"the heir dies", true, sec, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newWatch(nil)
				r := &run{o: Options{Lease: sec}, ctx: t.Context(), server: server, ledger: newLedger(server, newKeys("p"), 0)}
				hear := func(m *member, event string, call int) {
					report := about(event, call, judge.MachineNow(), judge.MachineNow()+tt.lease)
					r.ledger.heard(m, &report)
				}
				var did []string
				heir := obedient(r, func(m *member, o order) {
					if o.Do == doHold {
						hear(m, judge.Queued, -o.N)
					}
				})
				victim := obedient(r, func(m *member, o order) {
					did = append(did, o.Do)
					switch {
					case o.Do == doHold:
						hear(m, judge.Granted, -o.N)
					case o.Do == doCut && tt.dies:
						close(heir.over)
					case o.Do == doCut:
						hear(heir, judge.Granted, -1)
					}
				})
				r.bereave(cuts, victim, heir)
				if i := slices.IndexFunc(r.ledger.findings, func(f finding) bool { return f.symptom == Unnoticed }); i >= 0 != tt.want {
					t.Errorf("findings: %v", r.ledger.findings)
				}
				if got := strings.Join(did, " "); got != "hold cut restore release" {
					t.Errorf("the holder was ordered to %q", got)
				}
			})
		})
	}
}

// A holder may learn of the fail-over only with its next renewal.
func TestALockIsLostInAFailOverWhenAnotherCallGetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newWatch(nil)
		r := &run{ctx: t.Context(), server: server, ledger: newLedger(server, newKeys("p"), 0)}
		r.o.Failover = func(context.Context) error {
			server.changes = append(server.changes, judge.MachineNow())
			return nil
		}
		asked := make(map[string]int)
		for n := range 2 {
			m := obedient(r, func(m *member, o order) {
				if asked[o.Key]++; o.Do == doHold && (asked[o.Key] == 1 || m.number == 1) { // the second member gets no lock of the first
					report := about(judge.Granted, -o.N, judge.MachineNow(), math.MaxInt64)
					r.ledger.heard(m, &report)
				}
			})
			m.number = n + 1
			r.members = append(r.members, m)
		}
		if err := r.failOver(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := r.ledger.seen; s.Ballast != 2*ballastEach || s.BallastLost != ballastEach {
			t.Errorf("%d of %d locks were lost, want %d", s.BallastLost, s.Ballast, ballastEach)
		}
	})
}
