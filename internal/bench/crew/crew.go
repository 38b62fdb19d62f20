// Package crew runs the processes of a measurement. They are this program itself, started once more:
//
//	crew.Main(work) // before anything else
//
// A process of its own gives each library a fresh heap, and one that hangs can be killed.
package crew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/lockmw/go/internal/test/process"
)

// ErrHung is what a member's silence means when the time for it is over.
var ErrHung = errors.New("it hung and was killed")

// A Crew is the processes of a measurement.
type Crew struct{ members []*Member }

// A Member is one process, seen from the one that started it.
type Member struct {
	ctx   context.Context
	child *process.Child
}

// message is what goes over the pipes, one in a line.
type message struct {
	Word string          `json:"word"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Start starts a process for each job, which is encoded as JSON. They are killed when ctx ends.
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
			return nil, fmt.Errorf("starting a process: %w", err)
		}
		c.members = append(c.members, &Member{ctx: ctx, child: child})
	}
	return c, nil
}

// Close kills the members that have not ended and waits for all.
func (c *Crew) Close() { c.Dismiss(0) }

// Dismiss waits for all members to end, and kills those that have not after a while.
func (c *Crew) Dismiss(patience time.Duration) {
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

// Members returns the processes in the order of their jobs.
func (c *Crew) Members() []*Member { return c.members }

// Tell says a word to all members.
func (c *Crew) Tell(word string) error {
	for _, m := range c.members {
		if err := m.Tell(word); err != nil {
			return err
		}
	}
	return nil
}

// Hear waits until each member has said word.
func (c *Crew) Hear(word string) error {
	for _, m := range c.members {
		if err := m.Hear(word, nil); err != nil {
			return err
		}
	}
	return nil
}

// Tell says a word to the member.
func (m *Member) Tell(word string) error {
	if err := m.child.Orders.Encode(message{Word: word}); err != nil {
		return m.why(err)
	}
	return nil
}

// Hear waits for the member's next word, which must be this one, and decodes what came with it into
// data, unless that is nil. The error wraps ErrHung if the context of Start has run out of time.
func (m *Member) Hear(word string, data any) error {
	var heard message
	if err := m.child.Reports.Decode(&heard); err != nil {
		return m.why(err)
	}
	switch {
	case heard.Word == failed:
		var reason string
		_ = json.Unmarshal(heard.Data, &reason) // an empty one is no worse than none
		return errors.New(reason)
	case heard.Word != word:
		return fmt.Errorf("a process said %q instead of %q", heard.Word, word)
	case data == nil:
		return nil
	}
	return json.Unmarshal(heard.Data, data)
}

// why explains that a pipe is broken.
func (m *Member) why(err error) error {
	if ended := m.ctx.Err(); ended != nil {
		if errors.Is(ended, context.DeadlineExceeded) {
			return ErrHung
		}
		return ended
	}
	m.child.Kill() // completes what it printed
	return fmt.Errorf("a process of the measurement ended (%w): %s", err, m.child.Output())
}
