package deadlock_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/lockmw/go/internal/deadlock"
)

// seal returns a sealed message.
type seal func(m mail) (inbox, text string)

func sealedBy(secret, inbox string) seal {
	return func(m mail) (string, string) {
		body, _ := json.Marshal(m)
		return "mine", deadlock.Seal(secret, inbox, string(body))
	}
}

var seals = map[string]struct {
	seal
	counts bool
}{
	"by the secret":     {sealedBy("secret", "mine"), true},
	"by a guess":        {sealedBy("guess", "mine"), false},
	"by no secret":      {sealedBy("", "mine"), false},
	"for another inbox": {sealedBy("secret", "theirs"), false},
	"not at all": {func(m mail) (string, string) {
		body, _ := json.Marshal(m)
		return "mine", deadlock.MessagePrefix + string(body)
	}, false},
	"by a secret that ends": {sealedBy("old", "mine"), false},
}

// Another process reports that its wait is for a hold of this one, which ends the wait of this one.
func TestAnAnswerCountsOnlyIfItIsSealed(t *testing.T) {
	for name, test := range seals {
		t.Run(name, func(t *testing.T) {
			inOffice(t, func(o *office) {
				o.views = func(context.Context, []string) map[string]*deadlock.View {
					return map[string]*deadlock.View{"b": {Holders: []deadlock.Holder{{Lease: "b", Inbox: "theirs"}}}}
				}
				n := o.wait("b", "a")
				g := deadlock.NewGraph()
				g.Holds["b"] = &deadlock.Hold{Waits: []string{"other"}}
				g.Waits["other"] = &deadlock.Wait{
					Key: "a", View: &deadlock.View{Holders: []deadlock.Holder{{Lease: "a", Inbox: "mine"}}},
					Held: []deadlock.Held{{Lease: "b", Key: "b"}},
				}
				o.answering = func(m mail) { o.Receive(test.seal(mail{Number: m.Number, Answer: g})) }
				o.Check(n)
				pass(time.Minute)
				if got := len(n.Found) > 0; got != test.counts {
					t.Errorf("the wait is ended: %t", got)
				}
			})
		})
	}
}

// Any client that receives a question may repeat it.
func TestAQuestionIsAnsweredOnceAndOnlyIfItIsSealed(t *testing.T) {
	for name, test := range seals {
		t.Run(name, func(t *testing.T) {
			inOffice(t, func(o *office) {
				o.wait("key", "lease")
				inbox, text := test.seal(mail{Number: 1, From: "yours", Ask: &question{Leases: []string{"lease"}}})
				for range 3 {
					o.Receive(inbox, text)
					pass(time.Second)
				}
				want := 0
				if test.counts {
					want = 1
				}
				if len(o.sent) != want {
					t.Errorf("it is answered %d times", len(o.sent))
				}
			})
		})
	}
}

func TestMessagesWithoutASealLeadToFewReadsOfTheSecret(t *testing.T) {
	inOffice(t, func(o *office) {
		before := o.secretReads
		for range 1000 {
			o.Receive(seals["by a guess"].seal(mail{Check: "x"}))
			pass(2 * time.Millisecond)
		}
		if n := o.secretReads - before; n > 3 {
			t.Errorf("%d reads in 2 s", n)
		}
	})
}

// A server that has lost all data gets a new secret.
func TestAnotherSecretIsFoundOut(t *testing.T) {
	inOffice(t, func(o *office) {
		o.wait("key", "lease")
		o.secret = "another"
		pass(2 * time.Second)
		o.Receive(sealedBy("another", "mine")(mail{Number: 1, From: "yours", Ask: &question{Leases: []string{"lease"}}}))
		pass(time.Second)
		if len(o.sent) != 1 {
			t.Errorf("it is answered %d times", len(o.sent))
		}
	})
}
