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

// childVariable is the environment variable that makes this program a child. It contains the child's spec, in JSON.
const childVariable = "LOCKMW_CHILD"

// childMain is true if this program can be started as a child.
var childMain bool

// ChildMain lets StartChild start this program again: main or TestMain calls it before anything else. In a child it does not
// return: it runs life with the spec of StartChild, and exits. life reads orders and writes reports, which are JSON values. It
// must return when the orders end; io.EOF is not an error.
func ChildMain[Spec any](life func(spec Spec, orders *json.Decoder, reports *json.Encoder) error) {
	childMain = true
	text, ok := os.LookupEnv(childVariable)
	if !ok {
		return
	}
	reports := json.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr // other output is not a report
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

// A Child is a process that runs this program.
type Child struct {
	*Process

	// Orders goes to the child. CloseOrders ends it.
	Orders *json.Encoder
	// Reports comes from the child, and ends with it: earlier reports can still be read.
	Reports *json.Decoder

	orders, reports io.Closer
}

// StartChild starts a child, which is killed when ctx ends. edit may change its command; it may be nil. The caller has to call
// CloseOrders, CloseReports and Kill.
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
	cmd := exec.CommandContext(ctx, path) //nolint:gosec // path is that of this program
	cmd.Env = append(os.Environ(), childVariable+"="+string(text),
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE")) // the race detector delays each exit by a second
	if edit != nil {
		edit(cmd)
	}
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// StdoutPipe would be closed at the child's end with its last reports unread.
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
