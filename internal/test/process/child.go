package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// childVariable is the environment variable that makes this program a child: its spec, in JSON.
const childVariable = "LOCKMW_CHILD"

// childMain says that this program can be started as a child.
var childMain bool

// ChildMain makes this program one that StartChild can start once more: main or TestMain calls it before
// anything else. In a child it does not return: it runs life with the spec that StartChild was given, and
// exits. life reads orders and writes reports, JSON values. It returns at the end of the orders at the
// latest; io.EOF is no error.
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

// A Child is a process that runs this program itself.
type Child struct {
	*Process

	// Orders goes to the child, which reads its end after CloseOrders.
	Orders *json.Encoder
	// Reports comes from the child. It ends with the child: what was reported before can still be read.
	Reports *json.Decoder

	orders, reports io.Closer
}

// StartChild starts a child, which is killed when ctx ends. edit may change its command; it may be nil.
// CloseOrders, CloseReports and Kill belong to the caller.
func StartChild(ctx context.Context, spec any, edit func(*exec.Cmd)) (*Child, error) {
	if !childMain {
		return nil, errors.New("main or TestMain has to call ChildMain before anything else")
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = append(os.Environ(), childVariable+"="+string(text),
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE")) // the race detector makes each end last a second
	if edit != nil {
		edit(cmd)
	}
	return startChild(cmd)
}

func startChild(cmd *exec.Cmd) (*Child, error) {
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not StdoutPipe, which is closed at the child's end with its last reports unread.
	reports, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	cmd.Stdout = stdout
	p, err := Start(cmd)
	if err != nil {
		reports.Close()
		return nil, err
	}
	return &Child{
		Process: p, Orders: json.NewEncoder(orders), Reports: json.NewDecoder(reports),
		orders: orders, reports: reports,
	}, nil
}

// CloseOrders ends the orders.
func (c *Child) CloseOrders() { _ = c.orders.Close() } // it may have ended

// CloseReports ends the reading of reports. A child that writes more of them gets an error.
func (c *Child) CloseReports() { _ = c.reports.Close() }
