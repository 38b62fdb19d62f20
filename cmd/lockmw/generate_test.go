package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// generated runs `lockmw generate` and returns its files.
func generated(t *testing.T) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "files") // which does not exist
	call{args: []string{"generate", dir}}.run(t.Context()).want(t, statusDone)
	files := make(map[string]string)
	for _, name := range []string{"lockmw.1", "lockmw.bash", "_lockmw", "lockmw.fish", "lockmw.ps1"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	return files
}

func TestCompletionsEqualTheOutputOfCompletion(t *testing.T) {
	files := generated(t)
	for name, shell := range map[string]string{"lockmw.bash": "bash", "_lockmw": "zsh", "lockmw.fish": "fish", "lockmw.ps1": "powershell"} {
		if r := (call{args: []string{"completion", shell}}).run(t.Context()); r.out != files[name] {
			t.Errorf("%s is not what `lockmw completion %s` prints", name, shell)
		}
	}
}

func TestTheManualDescribesEachCommandAndFlag(t *testing.T) {
	page := generated(t)["lockmw.1"]
	flag := func(f *pflag.Flag) {
		if !strings.Contains(page, `\fB`+escape("--"+f.Name)+`\fR`) {
			t.Errorf("the flag %s is missing", f.Name)
		}
	}
	root := (&command{}).root()
	root.PersistentFlags().VisitAll(flag)
	n := 0
	for _, sub := range root.Commands() {
		if sub.Hidden {
			continue
		}
		if n++; !strings.Contains(page, `.SS "`+escape(sub.UseLine())+`"`) {
			t.Errorf("%s is missing", sub.Name())
		}
		sub.LocalNonPersistentFlags().VisitAll(flag)
	}
	if n < 10 || strings.Contains(page, "generate DIR") {
		t.Errorf("%d commands; the hidden one must not be among them", n)
	}
}

// A line that begins with a dot is a command of troff, and a backslash begins an escape. Both would swallow text.
func TestTheManualIsTroff(t *testing.T) {
	macro := regexp.MustCompile(`^\.(TH LOCKMW 1 "" ".+" "User Commands"|S[HS] .+|B lockmw|PP|TP|nf|fi|RS|RE)$`)
	escaped := regexp.MustCompile(`\\(e|-|&|\(dq|f[BIR])`)
	for line := range strings.Lines(generated(t)["lockmw.1"]) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, ".") && !macro.MatchString(line) || strings.HasPrefix(line, "'") || line == "" {
			t.Errorf("not a line of text: %q", line)
		}
		if rest := escaped.ReplaceAllString(line, ""); strings.Contains(rest, `\`) {
			t.Errorf("an unknown escape: %q", line)
		}
	}
	var m manual
	m.text("a \\ \"b\"\n\n  .c\n  'd -e\nf\n")
	if want := "a \\e \\(dqb\\(dq\n.PP\n.PP\n.nf\n.RS\n\\&.c\n\\&'d \\-e\n.RE\n.fi\n.PP\nf\n"; m.String() != want {
		t.Errorf("got %q, want %q", m.String(), want)
	}
}

func TestGroffHasNoWarnings(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("no groff")
	}
	var out, warnings bytes.Buffer
	cmd := exec.CommandContext(t.Context(), groff, "-ww", "-man", "-Tutf8", "-Kutf8")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(generated(t)["lockmw.1"]), &out, &warnings
	if err := cmd.Run(); err != nil || warnings.Len() > 0 || out.Len() < 5000 {
		t.Errorf("%v: %d bytes, %s", err, out.Len(), warnings.String())
	}
}

func TestGenerateNamesAFolderThatCannotBe(t *testing.T) {
	call{args: []string{"generate", "generate_test.go"}}.run(t.Context()).want(t, statusUsage, "generate_test.go")
	call{args: []string{"generate"}}.run(t.Context()).want(t, statusUsage, "generate DIR")
}

// The linker sets the version of released archives; `go install` leaves it to the go command.
func TestTheVersionOfTheLinkerComesFirst(t *testing.T) {
	if readBuild().Version == "v9.8.7" || readBuild().Version == "" {
		t.Fatalf("the version is %q", readBuild().Version)
	}
	version = "v9.8.7"
	t.Cleanup(func() { version = "" })
	call{args: []string{"version"}}.run(t.Context()).want(t, statusDone, "lockmw v9.8.7 go")
	call{args: []string{"version", "--json"}}.run(t.Context()).want(t, statusDone, `{"version":"v9.8.7","go":"go`)
	call{args: []string{"--version"}}.run(t.Context()).want(t, statusDone, "lockmw v9.8.7 go")
}
