package script_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/scripttest"
)

// A permitModel is a simple semaphore: a queue, and permits that expire.
type permitModel struct {
	now   time.Duration
	line  []modelPermit
	held  []modelPermit
	ended map[string]bool // ids that are refused
}

type modelPermit struct {
	id   string
	w, n int
	ends time.Duration
}

func (m *permitModel) used() (w int) {
	for _, p := range m.held {
		w += p.w
	}
	return w
}

// settle ends expired permits, and grants to the head of the queue as long as it fits.
func (m *permitModel) settle() {
	m.held = slices.DeleteFunc(m.held, func(p modelPermit) bool { return p.ends <= m.now })
	for len(m.line) > 0 && m.used()+m.line[0].w <= m.line[0].n {
		p := m.line[0]
		m.line = m.line[1:]
		p.ends = m.now + script.AcceptWindow
		m.held = append(m.held, p)
	}
}

func (m *permitModel) isHeld(id string) bool {
	return slices.ContainsFunc(m.held, func(p modelPermit) bool { return p.id == id && p.ends > m.now })
}

func (m *permitModel) isQueued(id string) bool {
	return slices.ContainsFunc(m.line, func(p modelPermit) bool { return p.id == id })
}

// extend makes a permit last for at least this time.
func (m *permitModel) extend(id string, d time.Duration) {
	for i := range m.held {
		if p := &m.held[i]; p.id == id && p.ends > m.now {
			p.ends = max(p.ends, m.now+d)
		}
	}
}

func (m *permitModel) remove(id string) {
	is := func(p modelPermit) bool { return p.id == id }
	m.held, m.line = slices.DeleteFunc(m.held, is), slices.DeleteFunc(m.line, is)
}

// acquire returns the expected answer of an acquire.
func (m *permitModel) acquire(p modelPermit, try bool) script.Outcome {
	m.settle()
	switch {
	case m.ended[p.id]:
		return script.Over
	case m.isHeld(p.id):
	case len(m.line) == 0 && m.used()+p.w <= p.n:
		m.held = append(m.held, p)
	case !try && !m.isQueued(p.id):
		m.line = append(m.line, p)
	}
	if m.isHeld(p.id) {
		m.extend(p.id, scripttest.Lease)
		return script.Held
	}
	return script.Queued
}

// Random calls, late copies and time: the scripts do the same as the model, and count what is held.
func TestPermitsDoWhatASimpleModelDoes(t *testing.T) {
	race.FindsNothing(t)
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Tidy = false // it is checked after each operation
		rapid.Check(t, func(r *rapid.T) {
			d.Redis.FlushAll(d.Context())
			m := permitModel{ended: make(map[string]bool)}
			ids, known := scripttest.IDs("a", 12), make(map[string]modelPermit)
			id := rapid.SampledFrom(ids)
			acquire := func(r *rapid.T, try bool) {
				id := id.Draw(r, "id")
				p, ok := known[id]
				if !ok {
					n := rapid.IntRange(1, 5).Draw(r, "n")
					p = modelPermit{id: id, n: n, w: rapid.IntRange(1, n).Draw(r, "weight")}
					known[id] = p
				}
				p.ends = m.now + scripttest.Lease
				got := d.AcquirePermit(scripttest.Permit{ID: p.id, N: p.n, Weight: p.w, Try: try})
				if want := m.acquire(p, try); got.Outcome != want {
					r.Fatalf("acquire of %s: %v, want %v", p.id, got.Outcome, want)
				}
			}
			poll := func(r *rapid.T, ids []string) {
				answers := d.PollPermits(ids...)
				m.settle()
				for i, id := range ids {
					want := script.Over
					if m.isHeld(id) {
						want = script.Held
						m.extend(id, scripttest.Lease)
					} else if m.isQueued(id) {
						want = script.Queued
					}
					if got := answers.Tickets[i].Outcome; got != want {
						r.Fatalf("poll of %s: %v, want %v", id, got, want)
					}
				}
			}
			r.Repeat(map[string]func(*rapid.T){
				"acquire": func(r *rapid.T) { acquire(r, false) },
				"try":     func(r *rapid.T) { acquire(r, true) },
				"poll":    func(r *rapid.T) { poll(r, []string{id.Draw(r, "id")}) },
				"release": func(r *rapid.T) {
					id := id.Draw(r, "id")
					held := m.isHeld(id)
					if got := d.ReleasePermit(id); (got == script.NotHeld) == held {
						r.Fatalf("release of %s: %v, it is held: %t", id, got, held)
					}
					if held {
						m.remove(id)
						m.settle()
					}
				},
				"cancel": func(r *rapid.T) {
					id := id.Draw(r, "id")
					d.CancelPermit(id)
					m.remove(id)
					m.ended[id] = true
					m.settle()
				},
				"renew": func(r *rapid.T) {
					id := id.Draw(r, "id")
					lease := time.Duration(rapid.IntRange(1, 60).Draw(r, "seconds")) * time.Second
					if got := d.RenewPermit(id, lease); (got == script.Done) != m.isHeld(id) {
						r.Fatalf("renewal of %s: %v", id, got)
					}
					m.extend(id, lease)
				},
				"time": func(r *rapid.T) {
					by := time.Duration(rapid.IntRange(1, 2000).Draw(r, "ms")) * time.Millisecond
					later(by)
					m.now += by
					var line []string
					for _, p := range m.line {
						line = append(line, p.id) // a process that does not poll counts as dead
					}
					poll(r, line)
				},
				"": func(r *rapid.T) {
					s := d.LookAtPermits()
					var live, line []string
					for _, p := range m.held {
						if p.ends > m.now {
							live = append(live, p.id)
						}
					}
					for _, p := range m.line {
						line = append(line, p.id)
					}
					slices.Sort(live)
					if !slices.Equal(s.Live(), live) || !slices.Equal(s.Queue, line) {
						r.Fatalf("%q hold and %q wait, want %q and %q", s.Live(), s.Queue, live, line)
					}
					if wrong := s.Disorder(false); len(wrong) > 0 {
						r.Fatal(fmt.Sprint(wrong, s))
					}
				},
			})
		})
	})
}
