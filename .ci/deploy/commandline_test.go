package deploy_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// programs builds the programs of the examples, and returns their folder.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", dir+string(filepath.Separator), "./cmd/lockmw", "./examples/orders")
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(cmd.Environ(), "GOWORK=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// output runs a command line that finds no Redis, and returns its exit status and output.
func output(t *testing.T, program string, args []string) (status int, text string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(cmd.Environ(), "LOCKMW_REDIS=127.0.0.1:1", "LOCKMW_TIMEOUT=1s")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// The command fails with 2 if it does not know a flag, and with 1 if it does not find Redis.
func TestTheCommandKnowsItsArguments(t *testing.T) {
	program := filepath.Join(programs(t), "lockmw")
	lines := [][]string{compose(t).Services["page"].Command}
	for _, pod := range render(t).pods {
		for _, c := range pod.Spec.Containers {
			if c.Name != "login" {
				lines = append(lines, c.Args)
			}
		}
	}
	if len(lines) != 3 {
		t.Fatalf("%d command lines", len(lines))
	}
	for _, args := range lines {
		if got, text := output(t, program, args); got != 1 {
			t.Errorf("lockmw %v: exit status %d, want 1: %s", args, got, text)
		}
		if got, text := output(t, program, append(slices.Clone(args), "--unknown")); got != 2 {
			t.Errorf("lockmw %v with an unknown flag: exit status %d, want 2: %s", args, got, text)
		}
	}
}

func TestTheShopKnowsItsArguments(t *testing.T) {
	args := compose(t).Services["shop"].Command
	if _, text := output(t, filepath.Join(programs(t), "orders"), args); !strings.Contains(text, "no redis at redis:6379") {
		t.Errorf("orders %v: %s", args, text)
	}
}
