package verify

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/process"
	"github.com/lockmw/go/internal/test/suite"
)

// A process has to end when its orders end, and without an error.
func TestTheEndOfAProcessIsJudged(t *testing.T) {
	process.ChildMain(func(struct{}, *json.Decoder, *json.Encoder) error { return nil }) // no child runs it
	for name, test := range map[string]struct{ script, want string }{
		"it ends":            {"cat >/dev/null", ""},
		"it fails":           {"cat >/dev/null; echo panic: oh >&2; exit 3", "a process ended: panic: oh"},
		"it had ended":       {"exit 0", "a process ended: exit status 0"},
		"it does not end":    {"exec sleep 1000", "a process did not end"},
		"… as it was killed": {"kill -9 $$", "a process ended: signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(test.script, "sleep") && !suite.Full() {
				t.Skip("it takes 10 s")
			}
			server := newWatch(nil)
			m := &member{run: &run{server: server, ledger: newLedger(server, newKeys("p"), 0)}, over: make(chan struct{})}
			child, err := process.StartChild(t.Context(), struct{}{}, func(cmd *exec.Cmd) {
				cmd.Path, cmd.Args, cmd.Stderr = "/bin/sh", []string{"sh", "-c", test.script}, &m.output
			})
			if err != nil {
				t.Fatal(err)
			}
			m.child = child
			go m.read()
			if !strings.HasPrefix(test.script, "cat") && !strings.Contains(test.script, "sleep") {
				<-m.over
			}
			if err := m.end(); (err != nil) != (test.want != "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if err := m.end(); err != nil {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}
