package lockmw

import (
	"context"
	"fmt"
	"iter"

	"github.com/lockmw/go/internal/inspect"
	"github.com/lockmw/go/internal/option"
)

// A ScanOption says how Inspector.All and other methods scan.
type ScanOption func(*inspect.Scan) error

// defaultShare is WithShare's default.
const defaultShare = 0.25

// WithShare lets a scan have at most that share of each server's time, more than 0 and up to 1; 0.25 by default. After what took
// a while the scan pauses for three times as long, or whatever it is. The time is measured here, from the question to
// the answer: a server that has more to do is asked less often.
func WithShare(share float64) ScanOption {
	return func(s *inspect.Scan) error {
		if !(share > 0 && share <= 1) {
			return fmt.Errorf("%w: WithShare(%v): it must be more than 0 and at most 1", ErrInvalidOption, share)
		}
		s.Share = share
		return nil
	}
}

// A ScanProgress is how far a scan has come.
type ScanProgress struct {
	Locks int     // how many were yielded
	Part  float64 // how much of the servers' keys was looked at, from 0 to 1: an estimate
}

// WithScanProgress has told called after each of the scan's pages, between two statuses.
func WithScanProgress(told func(ScanProgress)) ScanOption {
	return func(s *inspect.Scan) error {
		if told == nil {
			return fmt.Errorf("%w: WithScanProgress(nil)", ErrInvalidOption)
		}
		s.Progress = func(p inspect.Progress) { told(ScanProgress(p)) }
		return nil
	}
}

// All yields the status of every key that is held or waited for, or that a place is kept for, in no order. Locks that
// come or go meanwhile may be missing. A key that cannot be read comes with its error, and the scan goes on. An error
// without a key ends it: the server cannot be reached, or refuses. So does the end of ctx.
//
// It scans the masters page by page while the caller consumes, and reads the statuses of a page in pipelines; each status is read
// by one script, so that it is consistent. It stops where the caller does. No command holds up a server for long, unless very many
// wait for one key (a page of SCAN takes 0.2 ms, a status 15 us), and the scan has at most a quarter of the server's time: see
// WithShare.
//
// Memory is bounded, however many locks there are: some 10 MB, and what the names of all kept places need. A key comes once.
// If there are more than 260,000 locks, one that changes hands meanwhile may come twice.
func (i *Inspector) All(ctx context.Context, opts ...ScanOption) iter.Seq2[Status, error] {
	return scanned(opts, func(how inspect.Scan) iter.Seq2[*inspect.Status, error] { return i.made(ctx).All(ctx, how) })
}

// scanOf adds up options.
func scanOf(opts []ScanOption) (inspect.Scan, error) {
	how := inspect.Scan{Share: defaultShare}
	for _, o := range opts {
		err := fmt.Errorf("%w: a nil ScanOption", ErrInvalidOption)
		if !option.IsNil(o) {
			err = o(&how)
		}
		if err != nil {
			return how, err
		}
	}
	return how, nil
}

// scanFor returns what a scan with these options has found.
func scanFor[T any](opts []ScanOption, scan func(inspect.Scan) (T, error)) (T, error) {
	how, err := scanOf(opts)
	var found T
	if err == nil {
		found, err = scan(how)
	}
	if err != nil {
		return *new(T), &Error{Op: "inspect", Err: err}
	}
	return found, nil
}

// scanned yields what a scan with these options does.
func scanned(opts []ScanOption, scan func(inspect.Scan) iter.Seq2[*inspect.Status, error]) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		how, err := scanOf(opts)
		if err != nil {
			yield(Status{}, &Error{Op: "inspect", Err: err})
			return
		}
		for s, err := range scan(how) {
			var status Status
			if s != nil {
				status = statusOf(s)
			}
			if err != nil {
				err = &Error{Op: "inspect", Key: status.Key, Err: err}
			}
			if !yield(status, err) {
				return
			}
		}
	}
}
