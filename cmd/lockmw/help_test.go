package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lockmw/go/internal/test/redistest"
)

// commandLines are the commands; "" is the program itself.
var commandLines = []string{"", "ls", "show", "tasks", "watch", "unlock", "top", "history", "doctor", "bench", "verify", "serve", "version", "completion", "completion bash"}

func TestHelpFitsTheTerminal(t *testing.T) {
	for _, name := range commandLines {
		r := call{args: append(strings.Fields(name), "--help")}.run(t.Context())
		if r.want(t, statusDone, "Usage:\n  lockmw"); r.err != "" {
			t.Errorf("%s: %s", name, r.err)
		}
		for line := range strings.Lines(r.out) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%s: a line of the help has %d characters: %s", name, n, line)
			}
		}
		if got := strings.Contains(r.out, "--tls-ca"); got != (name == "") {
			t.Errorf("%s: the help lists the global flags: %t", name, got)
		}
		if name != "" && !strings.HasPrefix(name, "completion") && !strings.Contains(r.out, "\nExamples:\n  lockmw "+name) {
			t.Errorf("%s has no example:\n%s", name, r.out)
		}
		if strings.Contains(r.out, "docs/") && !strings.Contains(r.out, documents) {
			t.Errorf("%s: a page is named without its URL:\n%s", name, r.out)
		}
	}
}

// The examples of each help text are valid command lines.
func TestExamplesAreCommandLines(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	n := 0
	for _, name := range commandLines[1:12] {
		r := call{args: append(strings.Fields(name), "--help")}.run(t.Context())
		_, examples, _ := strings.Cut(r.out, "\nExamples:\n")
		examples, _, _ = strings.Cut(examples, "\n\n")
		for line := range strings.Lines(examples) {
			line, _, _ := strings.Cut(line, " | ")
			args := strings.Fields(strings.ReplaceAll(line, "'", ""))
			if n++; len(args) < 2 || args[0] != "lockmw" || args[1] != name {
				t.Errorf("%s: %q is not an example", name, line)
				continue
			}
			ctx, cancel := limited(t)
			got := call{args: append(args[1:], "--redis", s.Addr()), env: map[string]string{"LOCKMW_PREFIX": "none"}}.run(ctx)
			if cancel(); got.status == statusUsage && !strings.Contains(got.err, "needs a terminal") && !strings.Contains(got.err, "listen tcp") && !strings.Contains(got.err, "choose the hold") {
				t.Errorf("%s: %s", line, got.err)
			}
		}
	}
	if n < 10 {
		t.Errorf("found only %d examples", n)
	}
}

func TestTheVersionIsPrinted(t *testing.T) {
	want := call{args: []string{"version"}}.run(t.Context()).out
	r := call{args: []string{"--version"}}.run(t.Context())
	if r.want(t, statusDone, "lockmw "); r.out != want {
		t.Errorf("--version prints %q, version %q", r.out, want)
	}
}

func TestShellsCompleteCommandsAndValues(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		call{args: []string{"completion", shell}}.run(t.Context()).want(t, statusDone, "lockmw")
	}
	call{args: []string{"--help"}}.run(t.Context()).want(t, statusDone, "completion ")
	for line, want := range map[string]string{
		"un": "unlock", "ls --sort ": "waiters", "top --sort ": "handoffs", "ls --mode ": "exclusive", "top --mode ": "permit", "show ": ":4\n", "ls --so": "--sort",
	} {
		args := strings.Split(line, " ")
		call{args: append([]string{"__complete"}, args...)}.run(t.Context()).want(t, statusDone, want)
	}
}

func TestTextIsWrappedAtWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "",
		"one two":          "one two",
		"one two three":    "one two\n  three",
		"a verylongword b": "a\n  verylongword\n  b",
		"größe größe a":    "größe größe\n  a",
	} {
		width := 8
		if strings.HasPrefix(text, "gr") {
			width = 11
		}
		if got := wrap(text, width, 2); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestDoctorFitsTheTerminal(t *testing.T) {
	s := redistest.Redis(t, "--maxmemory-policy", "allkeys-lru")
	r := lockmwOn(t, s, "doctor")
	r.want(t, statusDone, "\nadvice   persistence  ")
	for line := range strings.Lines(r.out) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 && !strings.Contains(line, "https://") {
			t.Errorf("a line has %d characters: %s", n, line)
		}
	}
	if strings.Contains(strings.ReplaceAll(r.out, documents, ""), "docs/") {
		t.Errorf("a page is named without its URL:\n%s", r.out)
	}
}
