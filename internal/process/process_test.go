package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/process"
	"github.com/lockmw/go/internal/test/leak"
)

func TestMain(m *testing.M) {
	process.ChildMain(echo)
	leak.VerifyMain(m.Run)
}

// echo reports each of its orders with the spec. One order makes it end with an error.
func echo(spec string, orders *json.Decoder, reports *json.Encoder) error {
	fmt.Println("this is no report")
	for {
		var order string
		if err := orders.Decode(&order); err != nil {
			return err
		}
		if reason, ok := strings.CutPrefix(order, "fail: "); ok {
			return errors.New(reason)
		}
		if err := reports.Encode(spec + order); err != nil {
			return err
		}
	}
}

func start(t *testing.T, ctx context.Context) *process.Child {
	t.Helper()
	c, err := process.StartChild(ctx, "an echo of ", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.CloseOrders()
		c.CloseReports()
		c.Kill()
	})
	return c
}

func TestChildDoesAsItIsOrdered(t *testing.T) {
	c := start(t, t.Context())
	if err := c.Orders.Encode("hello"); err != nil {
		t.Fatal(err)
	}
	c.CloseOrders()
	if err := c.Err(); err != nil {
		t.Errorf("at the end of its orders the child ended with %v: %s", err, c.Output())
	}
	var report string
	if err := c.Reports.Decode(&report); err != nil || report != "an echo of hello" {
		t.Errorf("the report is %q, %v", report, err)
	}
	if err := c.Reports.Decode(&report); !errors.Is(err, io.EOF) {
		t.Errorf("there is one more report, %q, %v", report, err)
	}
	if out := c.Output(); !strings.Contains(out, "this is no report") {
		t.Errorf("the output is %q", out)
	}
}

func TestFailedChildSaysWhy(t *testing.T) {
	c := start(t, t.Context())
	if err := c.Orders.Encode("fail: no luck today"); err != nil {
		t.Fatal(err)
	}
	if err := c.Err(); err == nil || !strings.Contains(c.Output(), "no luck today") {
		t.Errorf("the child ended with %v: %s", err, c.Output())
	}
}

func TestChildEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := start(t, ctx)
	cancel()
	if c.Err() == nil {
		t.Error("it ended without an error")
	}
}

func TestEndOfALongOutputIsKept(t *testing.T) {
	p, err := process.Start(exec.Command("sh", "-c", "i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	if out := p.Output(); len(out) > 4<<10 || !strings.HasSuffix(out, "1998\n1999") {
		t.Errorf("kept %d bytes that end with %q", len(out), out[max(0, len(out)-20):])
	}
}

func TestProgramThatIsNotThereDoesNotStart(t *testing.T) {
	if _, err := process.Start(exec.Command(t.TempDir() + "/none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}
