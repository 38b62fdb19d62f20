package inproc_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lockmw/go/internal/core"
)

func TestRandomOperationsDoWhatAModelDoes(t *testing.T) {
	bubble(t, func(r *rig) {
		// A bubble has no deadline, and panics when it is asked for it: that method is hidden.
		hidden := struct{ testing.TB }{t}
		for range 10 { // a fault that takes several operations to show is found once in some hundred runs
			rapid.Check(hidden, r.doesWhatAModelDoes)
		}
	})
}

func (r *rig) doesWhatAModelDoes(t *rapid.T) {
	ctx, cancel := context.WithCancel(r.ctx)
	t.Cleanup(cancel)
	m := &model{
		rig:    &rig{t: t, ctx: ctx},
		kept:   make(map[string]modelPlace),
		random: rand.New(rand.NewPCG(1, 2)),
	}
	t.Repeat(map[string]func(*rapid.T){
		"":          m.check,
		"read":      func(t *rapid.T) { m.call(t, core.Read) },
		"write":     func(t *rapid.T) { m.call(t, core.Write) },
		"release":   m.release,
		"downgrade": m.downgrade,
		"cancel":    m.cancel,
		"expire":    m.expire,
		"pass time": m.passTime,
	})
	m.end()
}

// A model is the expected behaviour of the lock in its simplest form.
type model struct {
	*rig
	holds   []*modelCall // without lost ones; a released one may stay here for its minimum time
	waiting []*modelCall // in their order
	ended   []*modelCall // holds that have ended
	reading bool         // the present phase, or the last one
	token   int64
	places  int
	kept    map[string]modelPlace
	random  *rand.Rand
}

type modelCall struct {
	*call
	place    int
	since    time.Time // when it was granted
	until    time.Time // when it ends by itself; zero: never
	token    int64
	released bool
	lost     bool
}

type modelPlace struct {
	place int
	until time.Time // zero while a call waits there
}

func (c *modelCall) reads() bool { return c.req.Mode == core.Read }

// about makes durations differ, so that no two things happen in the same instant.
func (m *model) about(d time.Duration) time.Duration {
	return d + time.Duration(m.random.IntN(int(time.Millisecond)))
}

func (m *model) call(t *rapid.T, mode core.Mode) {
	var opts []option
	switch rapid.IntRange(0, 3).Draw(t, "patience") {
	case 0:
		opts = append(opts, try)
	case 1:
		opts = append(opts, within(m.about(10*time.Millisecond)))
	}
	switch rapid.IntRange(0, 7).Draw(t, "hold") {
	case 0:
		opts = append(opts, fixed(m.about(20*time.Millisecond)))
	case 1:
		opts = append(opts, minHold(m.about(20*time.Millisecond)))
	}
	if id := rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "place"); id != "" {
		opts = append(opts, place(id, m.about(30*time.Millisecond)))
	}
	m.begin(&modelCall{call: m.settled(mode, opts)})
}

// begin decides the outcome of a new call.
func (m *model) begin(c *modelCall) {
	if len(m.holds) == 0 || m.reading && c.reads() && !slices.ContainsFunc(m.waiting, writes) {
		m.grant(c)
		return
	}
	if kept, ok := m.kept[c.req.Place]; ok {
		c.place = kept.place
	} else {
		m.places++
		c.place = m.places
	}
	if c.req.Wait == 0 {
		m.keepPlace(c)
		m.failed(c.call, core.ErrBusy)
		return
	}
	if c.req.Wait != core.Forever {
		c.until = time.Now().Add(c.req.Wait)
	}
	if c.req.Place != "" {
		m.kept[c.req.Place] = modelPlace{place: c.place}
	}
	m.waiting = append(m.waiting, c)
	slices.SortStableFunc(m.waiting, func(a, b *modelCall) int { return cmp.Compare(a.place, b.place) })
	snapshot, position := c.reported().contended[0], slices.Index(m.waiting, c)+1
	if c.req.Place == "" && (snapshot.Position != position || snapshot.Queued != len(m.waiting)) {
		m.t.Errorf("a call is at %d of %d, want %d of %d", snapshot.Position, snapshot.Queued, position, len(m.waiting))
	}
}

func writes(c *modelCall) bool { return !c.reads() }

func (m *model) keepPlace(c *modelCall) {
	if c.req.Place != "" {
		m.kept[c.req.Place] = modelPlace{c.place, time.Now().Add(c.req.KeepPlace)}
	}
}

func (m *model) grant(c *modelCall) {
	m.reading = c.reads()
	if !m.reading || m.token == 0 {
		m.token++
	}
	c.token, c.since, c.until = m.token, time.Now(), time.Time{}
	if c.req.Fixed {
		c.until = time.Now().Add(c.req.Lease)
	}
	m.holds = append(m.holds, c)
}

// admit grants the lock to the first waiters that may have it, up to a limit.
func (m *model) admit(mayRun func(*modelCall) bool, most int) {
	var stay []*modelCall
	for _, c := range m.waiting {
		if !mayRun(c) || most == 0 {
			stay = append(stay, c)
			continue
		}
		most--
		m.keepPlace(c)
		m.grant(c)
	}
	m.waiting = stay
}

// settle applies the rule of phases.
func (m *model) grantNext() {
	const all = -1
	readersWait := slices.ContainsFunc(m.waiting, (*modelCall).reads)
	writersWait := slices.ContainsFunc(m.waiting, writes)
	free := len(m.holds) == 0
	switch {
	case free && writersWait && (m.reading || !readersWait):
		m.admit(writes, 1)
	case free, m.reading && !writersWait:
		m.admit((*modelCall).reads, all)
	}
}

// live returns the holds that can be released.
func (m *model) live() []*modelCall {
	return slices.DeleteFunc(slices.Clone(m.holds), func(c *modelCall) bool { return c.released })
}

func draw(t *rapid.T, from []*modelCall) *modelCall {
	if len(from) == 0 {
		t.Skip("there is none")
	}
	return from[rapid.IntRange(0, len(from)-1).Draw(t, "which")]
}

func (m *model) release(t *rapid.T) { m.unlock(draw(t, m.live())) }

func (m *model) unlock(c *modelCall) {
	m.rig.release(c.call)
	c.released = true
	delete(m.kept, c.req.Place)
	if least := c.since.Add(c.req.MinHold); least.After(time.Now()) {
		c.until = least
		return
	}
	m.endHold(c)
}

// lose ends a hold that was not released, and its place with it.
func (m *model) lose(c *modelCall) {
	if !c.released {
		c.lost = true
		delete(m.kept, c.req.Place)
	}
}

func (m *model) endHold(c *modelCall) {
	m.holds = without(m.holds, c)
	m.ended = append(m.ended, c)
	m.grantNext()
}

func without(from []*modelCall, c *modelCall) []*modelCall {
	return slices.DeleteFunc(slices.Clone(from), func(other *modelCall) bool { return other == c })
}

func (m *model) downgrade(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "over") == 0 {
		c := draw(t, m.ended)
		want := core.ErrNotHeld
		if c.lost {
			want = core.ErrLost
		}
		m.is("Downgrade", c.hold.Downgrade(context.Background()), want)
		return
	}
	c := draw(t, m.live())
	m.rig.downgrade(c.call)
	if !m.reading {
		m.reading = true
		m.admit((*modelCall).reads, -1)
	}
}

func (m *model) cancel(t *rapid.T) { m.stop(draw(t, m.waiting)) }

func (m *model) stop(c *modelCall) {
	m.giveUp(c.call)
	m.left(c)
}

// left updates the model after c gave up.
func (m *model) left(c *modelCall) {
	m.waiting = without(m.waiting, c)
	m.keepPlace(c)
	m.grantNext()
}

func (m *model) expire(t *rapid.T) {
	m.Expire(key)
	for _, c := range m.holds {
		m.lose(c)
		m.ended = append(m.ended, c)
	}
	m.holds = nil
	m.grantNext()
}

func (m *model) passTime(t *rapid.T) {
	m.pass(time.Duration(rapid.IntRange(1, 40).Draw(t, "time")) * time.Millisecond)
}

// pass lets time pass, and applies the events that are due.
func (m *model) pass(d time.Duration) {
	for end := time.Now().Add(d); ; {
		at, happen := m.next()
		if happen == nil || at.After(end) {
			pass(time.Until(end))
			return
		}
		pass(time.Until(at))
		happen()
	}
}

// next returns the next event that happens by itself, and its time.
func (m *model) next() (at time.Time, happen func()) {
	sooner := func(t time.Time, f func()) {
		if !t.IsZero() && (happen == nil || t.Before(at)) {
			at, happen = t, f
		}
	}
	for id, kept := range m.kept {
		sooner(kept.until, func() { delete(m.kept, id) })
	}
	for _, c := range m.waiting {
		sooner(c.until, func() {
			m.failed(c.call, core.ErrBusy)
			m.left(c)
		})
	}
	for _, c := range m.holds {
		sooner(c.until, func() {
			m.lose(c)
			m.endHold(c)
		})
	}
	return at, happen
}

// check compares the lock with the model.
func (m *model) check(*rapid.T) {
	synctest.Wait()
	for _, c := range m.waiting {
		m.wait(c.call)
	}
	for _, c := range m.live() {
		m.rig.holds(c.call)
		if c.hold.Token() != c.token {
			m.t.Errorf("the token is %d, want %d", c.hold.Token(), c.token)
		}
		if len(c.reported().losses) > 0 {
			m.t.Errorf("a hold was lost")
		}
	}
	for _, c := range m.ended {
		if c.lost != (len(c.reported().losses) == 1) {
			m.t.Errorf("the losses of a hold are %v, want one: %t", c.reported().losses, c.lost)
		}
	}
}

// end checks that nothing is left when all calls have given up and all places have expired.
func (m *model) end() {
	for len(m.waiting) > 0 {
		m.stop(m.waiting[0])
	}
	for _, c := range m.live() {
		m.unlock(c)
	}
	m.pass(time.Second) // no place is kept longer
	if n := m.Keys(); n != 0 {
		m.t.Errorf("%d keys are left", n)
	}
}
