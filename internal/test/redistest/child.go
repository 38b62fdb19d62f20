package redistest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// childVariable is the environment variable that makes a test binary a child: what it is to be, in JSON.
const childVariable = "LOCKMW_CHILD"

// childMain says that this program can be started as a child.
var childMain bool

// ChildMain lets a test binary be a child process of its own tests: TestMain calls it before anything
// else. In a child it does not return: life is all that it does, with the spec that was given to
// StartChild. It reads orders and writes reports, JSON values, and returns at the end of the orders
// (io.EOF is no error).
func ChildMain[Spec any](life func(spec Spec, orders *json.Decoder, reports *json.Encoder) error) {
	childMain = true
	text, ok := os.LookupEnv(childVariable)
	if !ok {
		return
	}
	reports := json.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr // whatever else is printed is no report
	var spec Spec
	err := json.Unmarshal([]byte(text), &spec)
	if err == nil {
		err = life(spec, json.NewDecoder(os.Stdin), reports)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintf(os.Stderr, "child process %d: %v\n", os.Getpid(), err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A Child is a process that is made of the test binary itself. Its methods are not safe for concurrent
// use, but those of Process are.
type Child struct {
	*Process
	t       testing.TB
	in      io.WriteCloser
	orders  *json.Encoder
	reports chan json.RawMessage
	over    chan struct{} // closed when nobody reads reports any more
	killed  bool
}

// StartChild starts a child with a spec for ChildMain. It is told to end, and must, when the test does.
// On systems where it would not end with the test's process the test is skipped.
func StartChild(t testing.TB, spec any) *Child {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("child processes are started on Linux only")
	}
	if !childMain {
		t.Fatal("TestMain has to call ChildMain before anything else")
	}
	c := &Child{t: t, reports: make(chan json.RawMessage, 100), over: make(chan struct{})}
	if err := c.start(spec); err != nil {
		t.Fatalf("starting a child: %v", err)
	}
	t.Cleanup(func() {
		close(c.over)
		c.End()
		for range c.reports { // until it is closed: the reader has ended
		}
	})
	return c
}

func (c *Child) start(spec any) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), path)
	cmd.Env = append(os.Environ(), childVariable+"="+string(text),
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE")) // the race detector makes each end last a second
	cmd.Stderr = c.t.Output()
	if c.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	// Not StdoutPipe, which is closed at the child's end with its last reports unread.
	reports, stdout, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdout.Close()
	cmd.Stdout = stdout
	if c.Process, err = Start(c.t, cmd); err != nil {
		reports.Close()
		return err
	}
	c.orders = json.NewEncoder(c.in)
	go c.read(reports)
	return nil
}

// read hands reports on until the child's end. What a killed child was about to say gets lost.
func (c *Child) read(from io.ReadCloser) {
	defer close(c.reports)
	defer from.Close()
	reports := json.NewDecoder(from)
	for {
		var r json.RawMessage
		if err := reports.Decode(&r); err != nil {
			return
		}
		select {
		case c.reports <- r:
		case <-c.over: // reading on, so that the child can end
		}
	}
}

// Order sends the child one order.
func (c *Child) Order(v any) {
	c.t.Helper()
	if err := c.orders.Encode(v); err != nil && !c.killed {
		c.t.Errorf("sending an order to a child: %v", err)
	}
}

// Reports returns what the child says, until it ends. If it has much to say, somebody has to read it.
func (c *Child) Reports() <-chan json.RawMessage { return c.reports }

// Kill ends the child without a chance to do anything, and waits for its end. What it reported before
// can still be read.
func (c *Child) Kill() {
	c.killed = true
	c.Process.Kill()
}

// childPatience is how long a child may take to end.
const childPatience = 30 * time.Second

// End tells the child that there are no more orders, and waits for its end.
func (c *Child) End() {
	c.t.Helper()
	c.in.Close()
	c.Resume(c.t) // it may have been stopped
	limit := time.NewTimer(childPatience)
	defer limit.Stop()
	select {
	case <-c.Ended():
	case <-limit.C:
		c.t.Error("a child does not end")
		c.Kill()
	}
	if err := c.Err(); err != nil && !c.killed {
		c.t.Errorf("a child ended by itself: %v", err)
	}
}
