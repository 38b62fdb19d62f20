package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/parkedtest"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// hostile is text that an attacker stores in Redis to change an operator's screen: ESC, BEL, DEL, C1 and bidi controls, a zero-width
// space and a new line.
const hostile = "\x1b[2JPWNED\x07\x7f\u009b31m\u202e\u2066\u200b\nlockmw:"

// unsafeRunes returns the characters of a text that control a terminal.
func unsafeRunes(text string) (found []string) {
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			found = append(found, fmt.Sprintf("%U", r))
		}
	}
	return found
}

// storeHostile writes a lock, its queue and its history, with hostile text in every field that may have text.
func storeHostile(t *testing.T, rdb redis.UniversalClient, key string) {
	t.Helper()
	at := fmt.Sprint(time.Now().UnixMicro())
	inbox := "lockmw:inbox:" + hostile
	lock := "lockmw:{" + strings.NewReplacer("\x1b", "%1B", "\x07", "%07", "\x7f", "%7F", "\n", "%0A").Replace(key) + "}"
	field := strings.NewReplacer(" ", "", "\n", "").Replace(hostile) // fields of a ticket are separated by spaces
	event, err := json.Marshal(map[string]any{
		"at_us": time.Now().UnixMicro(), "event": hostile, "key": key, "op": hostile, "mode": hostile, "label": hostile, "outcome": hostile,
		"error": hostile, "behind_process": hostile, "behind_label": hostile, "position": 1, "by": hostile,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]any{
		{
			"hset", lock, "id", "1", "token", at, "since", at, "mode", "fair" + hostile, "inbox", inbox,
			"owner", hostile + ";process=" + hostile + ";label=" + hostile, "trace", "00-" + hostile + "-1-01", "waiters", "1 " + hostile,
		},
		{"pexpire", lock, "60000"},
		{"zadd", lock + ":queue", at, hostile},
		{"hset", lock + ":tickets", hostile, "read" + field + " 1 1 " + field + " o" + field + ";process=" + field + ";label=" + field + " " + at},
		{"set", lock + ":kept:n\u202e", at, "px", "60000"},
		{"set", "other" + hostile + ":{k}:fence", "1"},
		{"xadd", "lockmw:events", "*", "process", hostile, "events", string(event)},
	} {
		if err := rdb.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
	}
	parkedtest.Park(t, rdb, "q"+hostile, lock, time.Now(), "task"+hostile)
}

func TestNoTextFromRedisControlsTheTerminal(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		key := "user:" + hostile
		storeHostile(t, s.NewClient(t), key)
		id := idFor(t, s, key)
		for _, args := range [][]string{
			{"ls"}, {"ls", "--sort", "none"}, {"show", key}, {"show", "free" + hostile}, {"tasks"}, {"tasks", key}, {"watch", key, "--for", "50ms"}, {"history"}, {"history", key},
			{"history", "free" + hostile}, {"top", "--json", "--for", "300ms"}, {"unlock", key}, {"unlock", key, "--holder", hostile}, {"ls", "--prefix", "none" + hostile},
			{"ls", "--prefix", "none"}, {"ls", "--sort", hostile}, {"ls", hostile}, {hostile}, {"ls", "--" + hostile}, {"show"},
			{"doctor", "--read-only"}, {"unlock", key, "--holder", id, "--yes"},
		} {
			for _, more := range [][]string{nil, {"--json"}} {
				r := lockmwOn(t, s, append(args, more...)...)
				if found := unsafeRunes(r.out + r.err); len(found) > 0 {
					t.Errorf("%q prints %s:\n%q\n%q", append(args, more...), found, r.out, r.err)
				}
				for line := range strings.Lines(r.out + r.err) {
					if more == nil && args[0] != "top" && strings.HasPrefix(line, "lockmw:") && strings.Contains(r.out, line) {
						t.Errorf("%q: the attacker's line is printed: %q", args, line)
					}
					if more != nil && strings.Contains(r.out, line) && !json.Valid([]byte(line)) {
						t.Errorf("%q prints a line that is not JSON: %s", args, line)
					}
				}
			}
		}
	})
}

func TestJSONKeepsEveryText(t *testing.T) {
	s := redistest.Mini(t)
	key := "user:" + hostile + "größe\U000e0001"
	take(t, newClient(t, s), key)
	r := lockmwOn(t, s, "ls", "--json")
	var lock lockRecord
	if err := json.Unmarshal([]byte(r.out), &lock); err != nil || lock.Key != key {
		t.Errorf("it prints %s, which is %q: %v", r.out, lock.Key, err)
	}
	if !strings.Contains(r.out, "größe") {
		t.Errorf("letters are escaped: %s", r.out)
	}
}

func TestNoErrorControlsTheTerminal(t *testing.T) {
	for _, err := range []error{
		errors.New("ERR " + hostile), &statusError{statusNothing, say("nobody holds %s", hostile)}, usage("--sort %s", hostile),
		errors.Join(errors.New("ERR "+hostile), fmt.Errorf("%w: %s", lockmw.ErrUnavailable, hostile)),
	} {
		var out strings.Builder
		c := &command{io: console{err: &out}}
		c.exitStatus(context.Background(), err)
		if found := unsafeRunes(out.String()); len(found) > 0 || !strings.Contains(out.String(), "PWNED") || strings.Count(out.String(), "\nlockmw:") > 0 {
			t.Errorf("%q is printed as %q", err, out.String())
		}
	}
}

func TestNoTextFromRedisControlsTheScreen(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		key := "user:" + hostile
		storeHostile(t, s.NewClient(t), key)
		e := newEyes(t, s)
		m := newScreen(t.Context(), e, 0, time.Second)
		m.where, m.prefix = hostile, hostile
		m.Update(tea.WindowSizeMsg{Width: 400, Height: 60})
		check := func(what string) {
			t.Helper()
			shown := ansi.Strip(strings.ReplaceAll(m.View().Content, "\x1b[2J", "CLEAR")) // styles are the program's own
			if found := unsafeRunes(shown); len(found) > 0 || strings.Contains(shown, "CLEAR") || !strings.Contains(shown, "PWNED") {
				t.Errorf("%s: it shows %s:\n%q", what, found, shown)
			}
		}
		m.Update(sightMsg{e.scan(t.Context(), topOrders[0].compare, m.memory)})
		check("the table")
		press(m, "enter")
		looks, err := e.lookAgain(t.Context(), []string{key})
		if err != nil {
			t.Fatal(err)
		}
		m.Update(looksMsg{looks: looks})
		check("one lock")
		m.Update(looksMsg{err: errors.New("ERR " + hostile)})
		check("an error")
	})
}

// Only text.go may print, because its printf escapes text.
func TestOnlyOneFilePrints(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	prints := regexp.MustCompile(`fmt\.F?[Pp]rint|\.WriteString\(|io\.Copy`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if name != "text.go" && !strings.HasSuffix(name, "_test.go") {
			for line := range strings.Lines(string(text)) {
				if prints.MatchString(line) {
					t.Errorf("%s prints without printf: %s", name, strings.TrimSpace(line))
				}
			}
		}
	}
}

func TestACommandToCopyRunsNothingElse(t *testing.T) {
	texts := []string{
		"user:42", "user:x'; touch PWNED; '", "a b", "$(touch PWNED)", "`touch PWNED`", `a\b"c`, "~", "-x", "--yes", "!!", "*", "a;b", "a&b|c>d", "größe", "=ls", "#", "'", "",
		`\'`, "{a,b}", "user:{42}",
	}
	for _, text := range texts {
		quoted, ok := shellArgument(text)
		if !ok {
			t.Errorf("%q cannot be quoted", text)
			continue
		}
		got, err := exec.CommandContext(t.Context(), "sh", "-c", `printf %s, x `+quoted).Output()
		if err != nil || string(got) != "x,"+text+"," {
			t.Errorf("%q is quoted as %s, which a shell takes for %q, %v", text, quoted, got, err)
		}
	}
	for _, text := range []string{hostile, "a\nb", "a\tb", "\xff", "\u202e", "\u00a0"} {
		if quoted, ok := shellArgument(text); ok {
			t.Errorf("%q is quoted as %s", text, quoted)
		}
	}
	for key, want := range map[string]string{
		"user:42": "lockmw unlock user:42 --holder", "user:x'; touch PWNED; '": `lockmw unlock 'user:x'\''; touch PWNED; '\''' --holder`,
		"-x": "lockmw unlock --holder ID -- -x\n", "two\nlines": "", "\u202e": "",
	} {
		s := onScreen(t, busy(key, 1, 9, 0))
		s.Update(tea.WindowSizeMsg{Width: 200, Height: 30})
		press(s, "enter")
		shown := regexp.MustCompile(` +\n`).ReplaceAllString(text(t, s), "\n")
		if want != "" && !strings.Contains(shown, want) || want == "" && strings.Contains(shown, "lockmw unlock") {
			t.Errorf("for %q it shows\n%s", key, shown)
		}
	}
}

func TestPrefixesToCopyAreQuoted(t *testing.T) {
	s := redistest.Mini(t)
	rdb := s.NewClient(t)
	for _, prefix := range []string{"x;touch PWNED", "plain", "two;\nls"} {
		if err := rdb.Set(t.Context(), prefix+":fence", "1", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	lockmwOn(t, s, "ls").want(t, statusNothing, "there are locks with --prefix plain, 'two;\\nls', 'x;touch PWNED'\n")
	lockmwOn(t, s, "ls", "--prefix", "plain").want(t, statusNothing, "other prefixes are 'two;\\nls', 'x;touch PWNED'\n")
	storeHostile(t, rdb, "user:42")
	at := fmt.Sprint(time.Now().UnixMicro())
	if err := rdb.HSet(t.Context(), "lockmw:{user:42}", "token", at, "owner", "'&ls&'").Err(); err != nil {
		t.Fatal(err)
	}
	lockmwOn(t, s, "unlock", "user:42").want(t, statusUsage, `--holder '`+at+`-'\''&ls&'\'''  `)
}
