package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// replay publishes a message of a grant of the only request a thousand times in 50 ms, and checks that it leads to few commands.
func (b *bubble) replay(when string) {
	b.Helper()
	id := b.e.ids.requests()[0].id.String()
	text := b.e.prove("grant " + id + strings.Repeat(" 1795358195100824", 2) + " 1 0 " + b.driver.Keys.Holder())
	b.sent()
	for range 50 {
		b.forge(slices.Repeat([]string{text}, 20)...)
	}
	n, sent := 0, b.sent()
	for _, of := range sent {
		n += of
	}
	if most := 4; n > most { // and what is due meanwhile
		b.Errorf("%s: a message, a thousand times, leads to %v", when, sent)
	}
}

// With replicas a message leads to an acquire, if the server has queued the request.
func TestAFloodOfTrueMessagesIsNoFloodOfAcquires(t *testing.T) {
	inReplicatedBubble(t, func(b *replicatedBubble) {
		b.warm()
		b.driver.Fair("held")
		waits := b.call(b.e, b.requester(core.Fair))
		b.wantWaiting("one behind another", waits)
		b.replay("the grant has expired")
		time.Sleep(script.PollInterval)
		b.replicas.have.Store(1)
		b.driver.Release("held")
		time.Sleep(script.PollInterval)
		b.replay("one replica has the grant")
		b.wantWaiting("a call whose grant one replica has", waits)
		b.replicas.have.Store(2)
		time.Sleep(script.PollInterval)
		b.release(b.wantGranted("a call whose grant two replicas have", waits))

		b.replicas.have.Store(1)
		waits = b.call(b.e, b.requester(core.Fair))
		time.Sleep(5 * time.Second) // until the pauses are long
		b.replay("the answer \"queued\" was lost")
		b.replicas.have.Store(2)
		time.Sleep(maxTryPause)
		b.release(b.wantGranted("a call whose first answer was lost", waits))
		b.wantFree()
	})
}

// The grant after a flood is found at the next question, and any other one immediately.
func TestAFloodDelaysAGrantOnlyALittle(t *testing.T) {
	for _, flood := range []bool{false, true} {
		t.Run(fmt.Sprint(flood), func(t *testing.T) {
			inReplicatedBubble(t, func(b *replicatedBubble) {
				b.warm()
				b.driver.Fair("held")
				waits := b.call(b.e, b.requester(core.Fair))
				b.wantWaiting("one behind another", waits)
				if flood {
					b.replay("the grant has expired")
				}
				b.sent()
				begun := time.Now()
				b.driver.Release("held")
				<-waits.done
				if took := time.Since(begun); took > hintGap || took > 0 && !flood {
					b.Errorf("the call returns after %v", took)
				}
				if sent := b.sent(); sent["acquire"] != 1 || sent["poll"] > 0 && !flood {
					b.Errorf("a grant leads to %v", sent)
				}
				b.release(b.wantGranted("a call that was granted the lock", waits))
				b.wantFree()
			})
		})
	}
}
