package script_test

import (
	"strings"
	"testing"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/answertext"
	"github.com/lockmw/go/internal/test/scripttest"
)

// ParseMessage reads every message that the scripts publish.
func TestMessagesOfTheScriptsAreUnderstood(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		heard := d.HearWhole()
		parse := func(want int) []script.Message {
			d.Helper()
			var all []script.Message
			for _, text := range heard() {
				id, payload, _ := strings.Cut(text, ": ")
				m, ok := script.ParseMessage(payload)
				if !ok || m.ID != id {
					d.Errorf("%q is read as %+v, %t", text, m, ok)
				}
				all = append(all, m)
			}
			if len(all) != want {
				d.Fatalf("published: %+v, want %d messages", all, want)
			}
			return all
		}
		token := d.Read("a").Grant.Token
		d.Write("w")
		if m := parse(1)[0]; m.Kind != script.Contended || m.ID != "a" {
			d.Errorf("to the holder: %+v", m)
		}
		d.Write("v")
		d.Force(token, "owner-a")
		all := parse(2)
		if all[0].Kind != script.TakenAway || all[0].ID != "a" {
			d.Errorf("to the holder that lost it: %+v", all[0])
		}
		g := all[1].Grant
		if all[1].Kind != script.Granted || all[1].ID != "w" || all[1].Holder != d.Keys.Holder() || all[1].Number != g.Token ||
			g.Token != d.Token() || g.Tokens != 1 || g.Waiting != 1 {
			d.Errorf("to the next one: %+v", all[1])
		}
		if !all[1].IsProven(scripttest.Secret("w")) || all[1].IsProven(scripttest.Secret("v")) {
			d.Errorf("whose secret proves it? %+v", all[1])
		}
	})
}

// Any client may publish to an inbox.
func FuzzMessage(f *testing.F) {
	for _, payload := range []string{
		"grant a 18 18 1 0 lockmw:{item:2}", "grant a 18 18 40 3 lockmw:{item:2}", "grant a 9223372036854775807 9223372036854775807 9223372036854775807 1 x",
		"grant a 0 0 1 0 x", "grant a -18 -18 1 0 x", "grant a 18 18 0 0 x", "grant a 18 18 -1 0 x", "grant a 18 18 1 0", "grant a 18 18 1 x y",
		"grant a  18 1 0 x", "grant a 1e3 1e3 1 0 x", "grant a 99999999999999999999 99999999999999999999 1 0 x", "grant a 18 18 1 0 lockmw:{a b}",
		"grant  18 18 1 0 x", "grant", "grant     ", "lost a", "lost", "lost a ", "contended a", "contended", "", " ", "\x00", "GRANT a 18 18 1 0 x",
	} {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		secret := scripttest.Secret("a")
		if m, ok := script.ParseMessage(payload); ok && m.IsProven(secret) {
			t.Errorf("%q has a proof", payload)
		}
		proven := payload
		word, rest, _ := strings.Cut(payload, " ")
		if word == "grant" {
			proven = scripttest.Prove(payload, secret)
		}
		m, ok := script.ParseMessage(proven)
		switch word {
		case "grant":
			words := strings.SplitN(rest, " ", 6)
			good := len(words) == 6
			var n [4]int64
			for i := range n {
				if good {
					n[i], good = answertext.Int(words[i+1])
				}
			}
			good = good && n[1] > 0 && n[2] > 0
			if ok != good {
				t.Fatalf("%q is read as %+v, %t", proven, m, ok)
			}
			if !good {
				return
			}
			id, run, _ := strings.Cut(words[0], ",")
			want := script.Message{
				Kind: script.Granted, ID: id, GrantBatch: run, Number: n[0], Holder: words[5],
				Grant: script.Grant{Token: n[1], Tokens: n[2], Waiting: n[3]},
			}
			if m.Said() != want || !m.IsProven(secret) || m.IsProven(scripttest.Secret("b")) {
				t.Errorf("%q is read as %+v", proven, m)
			}
			for i := range payload { // one that heard it changes something
				changed := proven[:i] + string(proven[i]^1) + proven[i+1:]
				if m, ok := script.ParseMessage(changed); ok && m.IsProven(secret) {
					t.Errorf("%q has a proof", changed)
				}
			}
		case "lost", "contended":
			kind := map[string]script.MessageKind{"lost": script.TakenAway, "contended": script.Contended}[word]
			if want := (script.Message{Kind: kind, ID: rest}); !ok || m != want {
				t.Errorf("%q is read as %+v, %t", payload, m, ok)
			}
		default:
			if ok {
				t.Errorf("%q is read as %+v", payload, m)
			}
		}
	})
}

func TestLongMessagesAreNotRead(t *testing.T) {
	longest := strings.Repeat("x", 3*1024)
	run := "a" + strings.Repeat(","+strings.Repeat("i", 36), script.MaxGrantBatch-1)
	for key, want := range map[string]bool{longest: true, longest + longest: false} {
		text := scripttest.Prove("grant "+run+" 1795358195100824 1795358195100824 4096 100000 "+strings.Repeat("p", 100)+":{"+key+"}", scripttest.Secret("a"))
		if m, ok := script.ParseMessage(text); ok != want || ok && !m.IsProven(scripttest.Secret("a")) {
			t.Errorf("a message of %d bytes is read: %t", len(text), ok)
		}
	}
	if _, ok := script.ParseMessage("lost " + longest + longest); ok {
		t.Error("a long message is read")
	}
}
