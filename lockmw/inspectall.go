package lockmw

import (
	"context"
	"fmt"
	"iter"

	"github.com/lockmw/go/internal/inspect"
	"github.com/lockmw/go/internal/option"
)

// A ScanOption configures how Inspector.All and other methods scan the servers.
type ScanOption func(*inspect.Scan) error

// defaultShare is the default of WithShare.
const defaultShare = 0.25

// WithShare limits which part of each server's time a scan may take: more than 0 and at most 1, default 0.25. With 0.25 the
// scan pauses after each command for three times as long as the command took. The time is measured here, from the command to
// its answer, so a busy server gets fewer commands.
func WithShare(share float64) ScanOption {
	return func(s *inspect.Scan) error {
		if !(share > 0 && share <= 1) {
			return fmt.Errorf("%w: WithShare(%v): it must be more than 0 and at most 1", ErrInvalidOption, share)
		}
		s.Share = share
		return nil
	}
}

// ScanProgress reports the progress of a scan.
type ScanProgress struct {
	Locks int     // number of locks yielded so far
	Part  float64 // estimated part of the servers' keys that was scanned, from 0 to 1
}

// WithScanProgress calls report after each page of the scan, between two statuses.
func WithScanProgress(report func(ScanProgress)) ScanOption {
	return func(s *inspect.Scan) error {
		if report == nil {
			return fmt.Errorf("%w: WithScanProgress(nil)", ErrInvalidOption)
		}
		s.Progress = func(p inspect.Progress) { report(ScanProgress(p)) }
		return nil
	}
}

// All yields the status of every key that is held, waited for, or has a kept place, in no particular order. Locks that come
// or go during the scan may be missing. A key that only has a Record is not yielded: see Get. If a key cannot be read, All yields
// its error with the key and continues. An error without a key ends the scan: the server is unreachable or refuses, or ctx has
// ended.
//
// All scans the masters page by page while the caller consumes, and stops when the caller does. It reads the statuses of a
// page in pipelines. One script reads each status, so a status is consistent. Commands are short (a page of SCAN takes 0.2 ms,
// a status 18 µs) unless very many calls wait for one key, and the scan takes at most a quarter of the server's time: see
// WithShare.
//
// Memory is limited to about 10 MB and the names of all kept places, however many locks there are. Each key comes once. With
// more than 260,000 locks, a lock that changes hands during the scan may come twice.
func (i *Inspector) All(ctx context.Context, opts ...ScanOption) iter.Seq2[Status, error] {
	return scanned(opts, func(how inspect.Scan) iter.Seq2[*inspect.Status, error] { return i.made(ctx).All(ctx, how) })
}

// scanOf returns the scan that the options describe.
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

// scanFor runs a scan with these options and returns its result.
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

// scanned yields the statuses of a scan with these options.
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
