// Package crew runs the processes of a measurement. They run this program again:
//
//	crew.Main(work) // before anything else
//
// Each library gets a fresh heap in its own process, and a process that hangs can be killed.
package crew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/lockmw/go/internal/process"
)

// ErrHung means that a member did not finish before the deadline of the context of Start.
var ErrHung = errors.New("it hung and was killed")

// A Crew is the processes of a measurement.
type Crew struct{ members []*Member }

// A Member is a process of a crew from the view of the one that started it.
type Member struct {
	ctx   context.Context
	child *process.Child
}

// A message is one line in a pipe.
type message struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Start starts a process for each job, which is encoded as JSON. They are killed when ctx ends. The error is ErrHung after its
// deadline.
// procs limits the processors that each of them uses; 0 does not.
func Start[Job any](ctx context.Context, procs int, jobs ...Job) (*Crew, error) {
	c := &Crew{}
	for _, job := range jobs {
		child, err := process.StartChild(ctx, job, func(cmd *exec.Cmd) {
			if procs > 0 {
				cmd.Env = append(cmd.Env, "GOMAXPROCS="+strconv.Itoa(procs))
			}
			cmd.WaitDelay = time.Second
		})
		if err != nil {
			c.Close()
			if ctx.Err() != nil {
				return nil, ending(ctx)
			}
			return nil, fmt.Errorf("starting a process: %w", err)
		}
		c.members = append(c.members, &Member{ctx: ctx, child: child})
	}
	return c, nil
}

// Close kills the members that have not ended, and waits for all.
func (c *Crew) Close() { c.Wait(0) }

// Wait waits until all members have ended, and kills those that have not after patience.
func (c *Crew) Wait(patience time.Duration) {
	members := c.members
	c.members = nil
	kill := time.AfterFunc(patience, func() {
		for _, m := range members {
			m.child.Kill()
		}
	})
	defer kill.Stop()
	for _, m := range members {
		<-m.child.Ended()
		m.child.CloseReports()
	}
}

// Bury waits until a member has ended, and removes it from the crew. The member must end on its own, without a message. The error
// is ErrHung after the deadline of the context of Start.
func (c *Crew) Bury(m *Member) error {
	defer func() {
		<-m.child.Ended()
		m.child.CloseReports()
		c.members = slices.DeleteFunc(c.members, func(other *Member) bool { return other == m })
	}()
	var got message
	if err := m.child.Reports.Decode(&got); err == nil {
		m.child.Kill()
		return fmt.Errorf("a process sent %q %s instead of ending", got.Name, got.Data)
	}
	if m.ctx.Err() != nil {
		return ErrHung
	}
	return nil
}

// Members returns the processes in the order of their jobs.
func (c *Crew) Members() []*Member { return c.members }

// Send sends a message to all members.
func (c *Crew) Send(name string) error {
	for _, m := range c.members {
		if err := m.Send(name); err != nil {
			return err
		}
	}
	return nil
}

// Expect waits for the next message of each member, which must be this one.
func (c *Crew) Expect(name string) error {
	for _, m := range c.members {
		if err := m.Expect(name, nil); err != nil {
			return err
		}
	}
	return nil
}

// Send sends a message to the member.
func (m *Member) Send(name string) error {
	if err := m.child.Orders.Encode(message{Name: name}); err != nil {
		return m.why(err)
	}
	return nil
}

// Expect waits for the member's next message, which must be this one. It decodes its data into data, unless that is nil. The
// error is ErrHung after the deadline of the context of Start.
func (m *Member) Expect(name string, data any) error {
	var got message
	if err := m.child.Reports.Decode(&got); err != nil {
		return m.why(err)
	}
	switch {
	case got.Name == failed:
		var reason string
		_ = json.Unmarshal(got.Data, &reason) // an empty reason is as good as none
		return errors.New(reason)
	case got.Name != name:
		return fmt.Errorf("a process sent %q instead of %q", got.Name, name)
	case data == nil:
		return nil
	}
	return json.Unmarshal(got.Data, data)
}

// why returns why a pipe is broken.
func (m *Member) why(err error) error {
	if m.ctx.Err() != nil {
		return ending(m.ctx)
	}
	m.child.Kill() // completes its output
	return fmt.Errorf("a process of the measurement ended (%w): %s", err, m.child.Output())
}

// ending returns the error of a context that has ended.
func ending(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ErrHung
	}
	return ctx.Err()
}
