package deadlock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/deadlock"
)

// An office is the environment of a detector, without a server. Its tests run in bubbles.
type office struct {
	*testing.T
	*deadlock.Detector
	waits *deadlock.Registry
	ctx   context.Context
	stop  context.CancelFunc
	views func(ctx context.Context, keys []string) map[string]*deadlock.View
	tell  func(n uint64) *deadlock.Graph // another process' answer; nil: it does not answer

	secret      string
	answering   func(m mail) // answers an ask in another way
	secretReads int
	asked       uint64 // questions so far

	mu   sync.Mutex
	sent []mail
}

// A mail is a message in the form in which it is sent.
type mail struct {
	Number uint64          `json:"n,omitempty"`
	From   string          `json:"f,omitempty"`
	Ask    *question       `json:"q,omitempty"`
	Answer *deadlock.Graph `json:"a,omitempty"`
	Check  string          `json:"x,omitempty"`
}

type question struct {
	Leases []string `json:"l,omitempty"`
}

func inOffice(t *testing.T, test func(o *office)) {
	synctest.Test(t, func(t *testing.T) {
		o := &office{T: t, waits: deadlock.NewRegistry(), secret: "secret"}
		o.ctx, o.stop = context.WithCancel(context.Background())
		o.Detector = deadlock.NewDetector(o.waits, o)
		o.views = func(context.Context, []string) map[string]*deadlock.View { return nil }
		o.PrefetchSecret()
		synctest.Wait()
		test(o)
		o.stop()
		o.Stop()
	})
}

func (o *office) Views(ctx context.Context, keys []string) map[string]*deadlock.View {
	return o.views(ctx, keys)
}

func (o *office) Inbox(string) string       { return "mine" }
func (o *office) Lasts(string, string) bool { return true }
func (o *office) Context() context.Context  { return o.ctx }
func (o *office) Secret(context.Context) string {
	o.secretReads++
	return o.secret
}

func (o *office) Send(_ context.Context, _, text string) {
	var m mail
	_, body, _ := strings.Cut(strings.TrimPrefix(text, deadlock.MessagePrefix), " ")
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		o.Error(err)
	}
	o.mu.Lock()
	o.sent = append(o.sent, m)
	o.mu.Unlock()
	if m.Ask != nil && o.answering != nil {
		o.answering(m)
	}
	if m.Ask != nil && o.tell != nil {
		if g := o.tell(m.Number); g != nil {
			o.receive(mail{Number: m.Number, Answer: g}, "")
		}
	}
}

// pass lets time pass, and lets due timers fire.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// receive passes a message that ends with some spaces to the detector.
func (o *office) receive(m mail, spaces string) {
	text, err := json.Marshal(m)
	if err != nil {
		o.Error(err)
	}
	o.Receive("mine", deadlock.Seal("secret", "mine", string(text)+spaces))
}

// ask asks for the waits that block a lease, and returns the answer; nil: there is none.
func (o *office) ask(lease string) *deadlock.Graph {
	o.asked++
	o.receive(mail{Number: o.asked, From: "yours", Ask: &question{Leases: []string{lease}}}, "")
	pass(time.Second)
	o.mu.Lock()
	defer o.mu.Unlock()
	sent := o.sent
	o.sent = nil
	if len(sent) == 0 {
		return nil
	}
	return sent[len(sent)-1].Answer
}

// A lasting call waits forever with one hold.
type lasting struct{ lease string }

func (l lasting) State() (ticket string, waits bool) { return "", true }
func (l lasting) Live() []core.Held {
	return []core.Held{{Hold: standing{lease: l.lease}, Key: l.lease}}
}
func (l lasting) Within(core.Scope) core.Chain { return l }

type standing struct {
	core.Hold
	lease string
}

func (s standing) State() core.HoldState { return core.HoldState{Lease: s.lease} }

// wait makes a call wait for a key with a hold.
func (o *office) wait(key, lease string) *deadlock.NestedWait {
	n := &deadlock.NestedWait{
		Waits: o.waits, Request: &core.Request{Key: key, Detect: time.Second}, Began: time.Now(), Site: o, Call: lasting{lease},
		Wake: func(time.Duration) {},
	}
	if !n.Begin(lasting{lease}) {
		o.Error("it has no hold")
	}
	return n
}

// heldBy returns views of keys, each of which is held by the lease of the same name.
func heldBy(_ context.Context, keys []string) map[string]*deadlock.View {
	views := make(map[string]*deadlock.View)
	for _, key := range keys {
		views[key] = &deadlock.View{Holders: []deadlock.Holder{{Lease: key, Inbox: "mine"}}}
	}
	return views
}

func TestOfManyWaitsWithOneHoldSomeAreReported(t *testing.T) {
	inOffice(t, func(o *office) {
		for i := range 1000 {
			o.wait(fmt.Sprint("key", i), "lease")
		}
		if g := o.ask("lease"); g == nil || len(g.Holds["lease"].Waits) != 64 || len(g.Waits) != 64 {
			t.Errorf("%+v", g)
		}
	})
}

func TestALongChainOfWaitsIsExaminedInPart(t *testing.T) {
	inOffice(t, func(o *office) {
		o.views = heldBy
		for i := range 1500 {
			o.wait(fmt.Sprint("k", i+1), fmt.Sprint("k", i))
		}
		if g := o.ask("k0"); g == nil || len(g.Waits) != 1024 {
			t.Errorf("%d waits are reported", len(g.Waits))
		}
	})
}

func TestKeysWithManyTicketsAreExaminedInPart(t *testing.T) {
	inOffice(t, func(o *office) {
		o.views = func(_ context.Context, keys []string) map[string]*deadlock.View {
			views := make(map[string]*deadlock.View)
			for _, key := range keys {
				views[key] = &deadlock.View{Tickets: make([]deadlock.Ticket, 3000)}
			}
			return views
		}
		for i := range 5 {
			o.wait(fmt.Sprint("key", i), "lease")
		}
		seen := 0
		g := o.ask("lease")
		for _, w := range g.Waits {
			if w.View != nil {
				seen++
			}
		}
		if len(g.Waits) != 5 || seen != 2 {
			t.Errorf("of %d keys %d are examined", len(g.Waits), seen)
		}
	})
}

func TestATooLongMessageIsNotRead(t *testing.T) {
	inOffice(t, func(o *office) {
		m := mail{Number: 1, From: "yours", Ask: &question{Leases: []string{"lease"}}}
		o.receive(m, strings.Repeat(" ", 4<<20))
		o.receive(m, strings.Repeat(" ", 3<<20))
		pass(time.Second)
		if len(o.sent) != 1 {
			t.Errorf("%d of 2 messages were answered", len(o.sent))
		}
	})
}

func TestFewAsksAreAnsweredAtTheSameTime(t *testing.T) {
	inOffice(t, func(o *office) {
		o.wait("key", "lease")
		o.views = func(ctx context.Context, _ []string) map[string]*deadlock.View {
			<-ctx.Done() // the server does not answer
			return nil
		}
		for round := range 2 {
			for i := range 20 {
				o.receive(mail{Number: uint64(i), From: "yours", Ask: &question{Leases: []string{"lease"}}}, "")
			}
			pass(time.Second)
			if len(o.sent) != 8*(round+1) {
				t.Errorf("%d questions were answered after round %d", len(o.sent), round)
			}
		}
	})
}

func TestARoundHasAnEndAndAPauseFollows(t *testing.T) {
	inOffice(t, func(o *office) {
		var rounds []int
		var mu sync.Mutex
		o.views = func(_ context.Context, keys []string) map[string]*deadlock.View {
			mu.Lock()
			defer mu.Unlock()
			rounds = append(rounds, len(keys))
			return nil
		}
		soFar := func() []int {
			mu.Lock()
			defer mu.Unlock()
			return rounds
		}
		for i := range 400 {
			n := o.wait(fmt.Sprint("key", i), "lease")
			o.Check(n)
			o.Check(n) // already scheduled
		}
		pass(50 * time.Millisecond)
		first := len(soFar())
		pass(time.Second)
		if rounds := soFar(); first != 1 || len(rounds) < 2 || len(rounds) > 3 || rounds[0] > 256 {
			t.Errorf("%d rounds immediately, then these: %v", first, rounds)
		}
	})
}

// Each process reports that its wait is for a lock of another one.
func TestACheckAsksALimitedNumberOfProcesses(t *testing.T) {
	inOffice(t, func(o *office) {
		o.views = func(context.Context, []string) map[string]*deadlock.View {
			return map[string]*deadlock.View{"key": {Holders: []deadlock.Holder{{Lease: "l0", Inbox: "process0"}}}}
		}
		o.tell = func(n uint64) *deadlock.Graph {
			lease, next, id := fmt.Sprint("l", n-1), fmt.Sprint("l", n), fmt.Sprint("w", n)
			g := deadlock.NewGraph()
			g.Holds[lease] = &deadlock.Hold{Waits: []string{id}}
			g.Waits[id] = &deadlock.Wait{Key: next, View: &deadlock.View{Holders: []deadlock.Holder{{Lease: next, Inbox: fmt.Sprint("process", n)}}}}
			if n == 500 { // otherwise it would continue forever
				return nil
			}
			return g
		}
		o.Check(o.wait("key", "lease"))
		pass(time.Minute)
		if len(o.sent) != 64 {
			t.Errorf("%d processes were asked", len(o.sent))
		}
		if n := o.Asked(); n != 0 {
			t.Errorf("it waits for %d answers", n)
		}
	})
}

func TestAQuestionWithoutAnAnswerIsDropped(t *testing.T) {
	inOffice(t, func(o *office) {
		o.views = func(context.Context, []string) map[string]*deadlock.View {
			return map[string]*deadlock.View{"key": {Holders: []deadlock.Holder{{Lease: "l0", Inbox: "gone"}}}}
		}
		o.Check(o.wait("key", "lease"))
		pass(time.Minute)
		if n := o.Asked(); len(o.sent) != 1 || n != 0 {
			t.Errorf("%d questions were sent, and it waits for %d answers", len(o.sent), n)
		}
		o.receive(mail{Number: 1, Answer: deadlock.NewGraph()}, "") // it is late
	})
}

// Stop is called while a round waits for the server, another wait is due, and a question is being answered.
func TestStopWaitsForAllAndNothingBeginsAfterIt(t *testing.T) {
	inOffice(t, func(o *office) {
		begun, over := 0, 0
		o.views = func(ctx context.Context, _ []string) map[string]*deadlock.View {
			o.mu.Lock()
			begun++
			o.mu.Unlock()
			<-ctx.Done()
			time.Sleep(time.Second)
			o.mu.Lock()
			over++
			o.mu.Unlock()
			return nil
		}
		n := o.wait("key", "lease")
		o.Check(n)
		o.asked++
		o.receive(mail{Number: o.asked, From: "yours", Ask: &question{Leases: []string{"lease"}}}, "")
		synctest.Wait()
		stopped := time.Now()
		o.stop()
		o.Stop()
		if begun != 2 || over != 2 || time.Since(stopped) != time.Second {
			t.Errorf("when Stop has returned after %v, %d of %d have ended", time.Since(stopped), over, begun)
		}
		o.Check(n)
		o.receive(mail{Number: 2, From: "yours", Ask: &question{Leases: []string{"lease"}}}, "")
		pass(time.Minute)
		if begun != 2 {
			t.Errorf("%d have begun after Stop", begun-2)
		}
	})
}
