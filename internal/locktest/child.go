package locktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/redistest"
	"github.com/lockmw/go/lockmw"
)

// A childSpec says what a child process is to be.
type childSpec struct {
	Role   string // of roles
	Addr   string // of the server
	Prefix string
	Kind   string // Mode of the Config that makes the Locker; "" is that of the Client itself
}

// kind is the Kind of children that take locks as c's Locker does.
func (c Config) kind() string {
	if c.Wrap == nil {
		return ""
	}
	return c.Mode
}

// A role is what a child process does: it reads orders and writes reports, JSON values, and returns at
// the end of the orders (io.EOF).
type role func(c *lockmw.Client, locker lockmw.Locker, in *json.Decoder, out *json.Encoder) error

var roles = map[string]role{
	"holder": holderRole,
	"load":   loadRole,
}

// clientMode is the mode of a Client.
const clientMode = "exclusive"

// childVariable is the environment variable that makes a test binary a child: a childSpec.
const childVariable = "LOCKTEST_CHILD"

// childMain says that this program can be started as a child.
var childMain bool

// ChildMain lets a test binary be a child process of its own tests: TestMain calls it before anything
// else, with the Configs whose Lockers children are to make. In a child it does not return.
func ChildMain(configs ...Config) {
	childMain = true
	text, ok := os.LookupEnv(childVariable)
	if !ok {
		return
	}
	var spec childSpec
	err := json.Unmarshal([]byte(text), &spec)
	if err == nil {
		err = spec.run(configs)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "child process %d: %v\n", os.Getpid(), err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run is the child's life.
func (s childSpec) run(configs []Config) error {
	do, ok := roles[s.Role]
	if !ok {
		return fmt.Errorf("no role %q", s.Role)
	}
	wrap, err := s.wrap(configs)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr // whatever else is printed is no report
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer rdb.Close()
	c, err := lockmw.New(rdb, lockmw.WithPrefix(s.Prefix), lockmw.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	if err != nil {
		return err
	}
	err = do(c, wrap(c), json.NewDecoder(os.Stdin), out)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	err = errors.Join(err, c.Close())
	if left := await(patience, engineGoroutine); left != "" {
		err = errors.Join(err, errors.New(left))
	}
	return err
}

// wrap finds what makes the Locker of a Client.
func (s childSpec) wrap(configs []Config) (func(*lockmw.Client) lockmw.Locker, error) {
	for _, c := range configs {
		if c.Mode == s.Kind && c.Wrap != nil {
			return func(l *lockmw.Client) lockmw.Locker { return c.sides(c.Wrap(l)) }, nil
		}
	}
	if s.Kind != "" && s.Kind != clientMode {
		return nil, fmt.Errorf("TestMain calls ChildMain without the Config of mode %q", s.Kind)
	}
	return func(c *lockmw.Client) lockmw.Locker { return c }, nil
}

// A child is a process that the test has started.
type child struct {
	t       testing.TB
	name    string
	process *redistest.Process
	in      io.WriteCloser
	orders  *json.Encoder
	out     chan json.RawMessage
	over    chan struct{} // closed when nobody reads reports any more
	killed  bool
}

// startChild starts a copy of this test binary in a role. It is told to end, and must, when the test
// does.
func startChild(t testing.TB, spec childSpec) *child {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("child processes are stopped and compared by clock on Linux only")
	}
	if !childMain {
		t.Fatal("TestMain has to call locktest.ChildMain before anything else")
	}
	c := &child{t: t, name: spec.Role, out: make(chan json.RawMessage, 100), over: make(chan struct{})}
	if err := c.start(spec); err != nil {
		t.Fatalf("starting a child: %v", err)
	}
	t.Cleanup(func() {
		close(c.over)
		c.end()
		for range c.out { // until it is closed: the reader has ended
		}
	})
	return c
}

func (c *child) start(spec childSpec) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), path)
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
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
	if c.process, err = redistest.Start(c.t, cmd); err != nil {
		reports.Close()
		return err
	}
	c.orders = json.NewEncoder(c.in)
	go c.read(reports)
	return nil
}

// read hands reports on until the child's end. What a killed child was about to say gets lost.
func (c *child) read(from io.ReadCloser) {
	defer close(c.out)
	defer from.Close()
	reports := json.NewDecoder(from)
	for {
		var r json.RawMessage
		if err := reports.Decode(&r); err != nil {
			return
		}
		select {
		case c.out <- r:
		case <-c.over: // reading on, so that the child can end
		}
	}
}

// order sends the child one order. Not safe for concurrent use.
func (c *child) order(v any) {
	c.t.Helper()
	if err := c.orders.Encode(v); err != nil && !c.killed {
		c.t.Errorf("%s: sending an order: %v", c.name, err)
	}
}

// reports returns what the child says, until it ends. Somebody has to read it.
func (c *child) reports() <-chan json.RawMessage { return c.out }

// Stop stops the child in its tracks, and returns when it stands still; Cont lets it go on.
func (c *child) Stop() { c.process.Pause(c.t) }

// Cont ends Stop.
func (c *child) Cont() { c.process.Resume(c.t) }

// Kill ends the child without a chance to do anything, and waits for its end. What it reported before
// can still be read.
func (c *child) Kill() {
	c.killed = true
	c.process.Kill()
}

// end tells the child that there are no more orders, and waits for its end. Its Client is closed then,
// and has said to the server what it had to say.
func (c *child) end() {
	c.t.Helper()
	c.in.Close()
	c.process.Resume(c.t) // it may have been stopped
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-c.process.Ended():
	case <-limit.C:
		c.t.Errorf("%s: it does not end", c.name)
		c.Kill()
	}
	if err := c.process.Err(); err != nil && !c.killed {
		c.t.Errorf("%s: it ended by itself: %v", c.name, err)
	}
}
