package engine

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/scripttest"
)

// Any client may publish to an inbox. A message never makes a hold unless a script wrote it, about an id that waits, and later
// than the last answer; and it never ends a hold. HELD and WAITS stand for the ids of a hold and of a waiter, STEM for the common
// beginning of all ids of this process. A payload that begins with a '!' gets the proof that a script would have given it.
func FuzzInbox(f *testing.F) {
	defer race.OneProcessor()()
	for _, payload := range []string{
		"grant WAITS 18 18 1 0 lockmw:{item:2}", "grant WAITS 18 18 40 3 lockmw:{item:2}", "grant WAITS 9223372036854775807 9223372036854775807 9223372036854775807 1 x",
		"grant WAITS 17 17 1 0 lockmw:{item:2}", "grant WAITS 0 0 1 0 x", "grant WAITS -18 -18 1 0 x", "grant WAITS 18 18 0 0 x",
		"grant WAITS 18 18 -1 0 x", "grant WAITS 18 18 1 0", "grant WAITS 18 18 1 x y", "grant WAITS  18 1 0 x", "grant WAITS 1e3 1e3 1 0 x",
		"grant WAITS 99999999999999999999 99999999999999999999 1 0 x", "grant HELD 18 18 1 0 lockmw:{item:1}", "grant STEMzz 18 18 1 0 lockmw:{item:1}",
		"grant STEM 18 18 1 0 lockmw:{}", "grant x 18 18 1 0 lockmw:{item:1}", "grant  18 18 1 0 lockmw:{item:2}", "grant", "grant     ",
		"grant WAITS,HELD 18 18 2 0 lockmw:{item:2}", "grant WAITS 18 18 1 0 lockmw:{item:1}", "grant WAITS 18 18 1 0 lockmw:{item:2} " + strings.Repeat("0", 40),
		"permit WAITS 18 0 0 lockmw:{item:2}", "permit HELD 18 0 0 lockmw:{item:1}", "permit STEMzz 18 - 0 lockmw:{item:1}",
		"lost HELD", "lost WAITS", "lost", "lost x", "lost HELD ", "lost STEM", "contended HELD", "contended WAITS", "contended", "", " ", "\x00", "GRANT WAITS 18 1 0 x",
	} {
		f.Add(payload)
		f.Add("!" + payload)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		synctest.Test(t, func(t *testing.T) { hearPayload(t, payload) })
	})
}

func hearPayload(t *testing.T, payload string) {
	s := &oracle{answers: []string{"( 1 17 1 0 )", "( 0 17 1 1 1 30000 6 owner lockmw:inbox:p 16 5 ' )"}}
	e := s.engine(t)
	e.probe.Disable() // it would take an answer
	defer func() { _ = e.Close() }()
	holder, waiter := newRequester("item:1"), newRequester("item:2")
	held := holder.acquire(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	granted := make(chan int64, 1)
	go func() {
		token := int64(0)
		if g, err := e.Acquire(ctx, &waiter.Request); err == nil {
			token = g.Token()
		} else if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		granted <- token
	}()
	synctest.Wait()
	commands := s.sent()
	ids := [2]string{firstArg(commands[0]), firstArg(commands[1])}
	stem := ids[0][:strings.LastIndexByte(ids[0], '.')+1]
	text, isProven := strings.CutPrefix(strings.NewReplacer("HELD", ids[0], "WAITS", ids[1], "STEM", stem).Replace(payload), "!")
	sent := text
	if isProven = isProven && !strings.HasPrefix(text, "permit "); isProven { // no call waits for a permit
		sent = e.prove(text)
	}
	before := len(s.sent())
	e.inboxes.Receive(e.inbox, &redis.Message{Channel: e.inbox.Name, Payload: sent})
	synctest.Wait()
	if len(holder.lost) > 0 || held.Lost != nil {
		t.Errorf("%q: the hold is lost: %v", payload, held.Lost)
	}
	time.Sleep(time.Millisecond) // of the bubble's time
	synctest.Wait()
	commands = s.sent()[before:]
	asks := text == "lost "+ids[0] || text == "lost "+ids[1]
	if n := len(commands); n > 1 || n > 0 && !isProven && !asks {
		t.Errorf("%q is followed by %q", payload, commands)
	}
	for _, words := range commands {
		if name := e.nameOf(words[1]); name != "cancel" && name != "permit_cancel" {
			continue
		} else if id := firstArg(words); id == ids[0] || id == ids[1] {
			t.Errorf("%q cancels %s", payload, id)
		}
	}
	cancel()
	want := int64(0)
	if isProven {
		want = pushedToken(text, ids[1])
	}
	if got := <-granted; got != want {
		t.Errorf("%q grants token %d, want %d", payload, got, want)
	}
}

// prove returns a message of a grant as a script would have written it.
func (e *Engine) prove(text string) string {
	words := strings.SplitN(text, " ", 7)
	if words[0] == "permit" {
		words = strings.SplitN(text, " ", 6)
	}
	if len(words) < 2 {
		return text
	}
	return scripttest.Prove(text, e.secretOf(words[len(words)-1]))
}

// nameOf returns the name of the script with a hash, or with a text.
func (e *Engine) nameOf(script string) string {
	for name, s := range e.scripts.All() {
		if s.SHA == script || s.Source == script {
			return name
		}
	}
	return ""
}

// firstArg is the first argument of a script after its keys.
func firstArg(words []string) string {
	keys, _ := strconv.Atoi(words[2])
	return words[3+keys]
}

// pushedToken is the token of a grant to id that may be relied on after an answer with stamp 17; 0 if
// it is none.
func pushedToken(payload, id string) int64 {
	words := strings.SplitN(payload, " ", 7)
	if len(words) < 7 || words[0] != "grant" {
		return 0
	}
	if first, _, _ := strings.Cut(words[1], ","); first != id {
		return 0
	}
	var n [4]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(words[2+i], 10, 64); err != nil {
			return 0
		}
	}
	if n[0] <= 17 || n[1] < 1 || n[2] < 1 {
		return 0
	}
	return n[1]
}
