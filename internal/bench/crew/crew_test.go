package crew_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/usertest"
)

func TestMain(m *testing.M) {
	crew.Main(play)
	leak.VerifyMain(m.Run)
}

// A job is the work of a process in these tests.
type job struct{ Role, Text string }

func play(j job, parent *crew.Parent) error {
	switch j.Role {
	case "echo":
		for {
			order := parent.Next()
			if err := parent.Send(order, j.Text); err != nil || order == "last" {
				return err
			}
		}
	case "procs":
		return parent.Send("procs", runtime.GOMAXPROCS(0))
	case "fail":
		return errors.New(j.Text)
	case "crash":
		panic(j.Text)
	case "exit":
		parent.Next()
		os.Exit(0)
	case "hang":
		select {}
	}
	return errors.New("no such role")
}

func start(t *testing.T, ctx context.Context, procs int, jobs ...job) *crew.Crew {
	t.Helper()
	c, err := crew.Start(ctx, procs, jobs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestMembersDoTheirJobs(t *testing.T) {
	c := start(t, t.Context(), 0, job{"echo", "first"}, job{"echo", "second"})
	if err := c.Send("hello"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"first", "second"} {
		var got string
		if err := c.Members()[i].Expect("hello", &got); err != nil || got != want {
			t.Errorf("member %d sent %q, %v", i, got, err)
		}
	}
	if err := c.Send("last"); err != nil {
		t.Fatal(err)
	}
	if err := c.Expect("last"); err != nil {
		t.Error(err)
	}
	c.Wait(time.Minute)
}

func TestAMemberThatHasEndedIsNoLongerOfTheCrew(t *testing.T) {
	c := start(t, t.Context(), 0, job{"echo", "alive"}, job{Role: "exit"})
	second := c.Members()[1]
	if err := second.Send("go"); err != nil {
		t.Fatal(err)
	}
	if err := c.Bury(second); err != nil {
		t.Fatal(err)
	}
	if n := len(c.Members()); n != 1 {
		t.Errorf("%d members", n)
	}
	if err := c.Send("last"); err != nil {
		t.Fatal(err)
	}
	if err := c.Expect("last"); err != nil {
		t.Error(err)
	}
	c.Wait(time.Minute)
}

func TestAMemberThatDoesNotEndAsExpectedIsAnError(t *testing.T) {
	c := start(t, t.Context(), 0, job{Role: "fail", Text: "no key"})
	if err := c.Bury(c.Members()[0]); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Errorf("a failure: %v", err)
	}
	ctx, pass := usertest.WithDeadline(t.Context())
	c = start(t, ctx, 0, job{Role: "hang"})
	pass()
	if err := c.Bury(c.Members()[0]); !errors.Is(err, crew.ErrHung) {
		t.Errorf("it hangs: %v", err)
	}
}

func TestAnUnexpectedMessageIsAnError(t *testing.T) {
	c := start(t, t.Context(), 0, job{Role: "echo"})
	if err := c.Send("hello"); err != nil {
		t.Fatal(err)
	}
	if err := c.Expect("bye"); err == nil || !strings.Contains(err.Error(), `"hello"`) {
		t.Errorf("the error is %v", err)
	}
}

func TestProcessorsAreLimited(t *testing.T) {
	c := start(t, t.Context(), 1, job{Role: "procs"})
	var n int
	if err := c.Members()[0].Expect("procs", &n); err != nil || n != 1 {
		t.Errorf("GOMAXPROCS is %d, %v", n, err)
	}
}

func TestAMembersErrorIsReported(t *testing.T) {
	c := start(t, t.Context(), 0, job{"fail", "no luck today"})
	if err := c.Expect("done"); err == nil || err.Error() != "no luck today" {
		t.Errorf("the error is %v", err)
	}
}

func TestCrashIsReportedWithTheEndOfItsOutput(t *testing.T) {
	c := start(t, t.Context(), 0, job{"crash", "good bye"})
	if err := c.Expect("done"); err == nil || !strings.Contains(err.Error(), "panic: good bye") {
		t.Errorf("the error is %v", err)
	}
}

func TestMemberThatHangsIsKilled(t *testing.T) {
	ctx, pass := usertest.WithDeadline(t.Context())
	c := start(t, ctx, 0, job{Role: "hang"}, job{Role: "echo"})
	pass()
	if err := c.Expect("done"); !errors.Is(err, crew.ErrHung) {
		t.Errorf("the error is %v", err)
	}
	c.Close() // returns only when the processes have ended
}

func TestCancelledRunIsNotTakenForHung(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := start(t, ctx, 0, job{Role: "hang"})
	cancel()
	if err := c.Expect("done"); !errors.Is(err, context.Canceled) || errors.Is(err, crew.ErrHung) {
		t.Errorf("the error is %v", err)
	}
}

func TestMemberEndsWithItsParent(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Env = append(os.Environ(), `LOCKMW_CHILD={"Role":"echo"}`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, `{"name":"hello"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil { // like the kernel at the parent's death
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
}
