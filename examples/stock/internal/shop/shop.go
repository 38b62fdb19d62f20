package shop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lockmw/go/internal/process"
)

// A Shop is a process that sells. Its methods, except Close and Kill, are safe for concurrent use.
type Shop struct {
	url     string
	child   *process.Child
	stopped chan string
	read    chan struct{} // closed when the reports have ended
}

// Open starts a shop, which is killed when ctx ends. The program must call process.ChildMain with Live at its start.
func Open(ctx context.Context, spec Spec) (*Shop, error) {
	child, err := process.StartChild(ctx, spec, nil)
	if err != nil {
		return nil, err
	}
	s := &Shop{child: child, stopped: make(chan string, 16), read: make(chan struct{})}
	var first report
	if err = child.Reports.Decode(&first); err == nil && first.Err != "" {
		err = errors.New(first.Err)
	}
	if err != nil {
		close(s.read)
		s.Kill()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("a shop did not open: %w %s", err, child.Output())
	}
	s.url = first.URL
	go s.readReports()
	return s, nil
}

func (s *Shop) readReports() {
	defer close(s.read)
	for {
		var r report
		if s.child.Reports.Decode(&r) != nil {
			return
		}
		if r.Stopped != "" {
			s.stopped <- r.Stopped
		}
	}
}

// Stopped receives the user of each call that has stopped at its point.
func (s *Shop) Stopped() <-chan string { return s.stopped }

// GoOn resumes a stopped call.
func (s *Shop) GoOn(user string) error { return s.child.Orders.Encode(command{user}) }

// PID returns the id of the process.
func (s *Shop) PID() int { return s.child.PID() }

// Pause suspends the process. It returns errors.ErrUnsupported on systems other than Linux.
func (s *Shop) Pause(ctx context.Context) error { return s.child.Pause(ctx) }

// Resume continues the process after Pause.
func (s *Shop) Resume() error { return s.child.Resume() }

// Kill kills the process immediately.
func (s *Shop) Kill() {
	s.child.CloseOrders()
	s.child.Kill()
	<-s.read
	s.child.CloseReports()
}

// Close lets the process end, and kills it after a while.
func (s *Shop) Close() error {
	s.child.CloseOrders()
	select {
	case <-s.child.Ended():
	case <-time.After(10 * time.Second):
	}
	s.Kill()
	if err := s.child.Err(); err != nil {
		return fmt.Errorf("a shop's process: %w: %s", err, s.child.Output())
	}
	return nil
}

// Buy sends an order.
func (s *Shop) Buy(ctx context.Context, client *http.Client, o Order) (a Answer, err error) {
	body, err := json.Marshal(o)
	if err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/orders", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set(keyHeader, o.Key())
	res, err := client.Do(req)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	err = json.NewDecoder(res.Body).Decode(&a)
	return a, err
}
