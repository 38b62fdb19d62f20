package core

import "errors"

// A Fault says why ErrUnavailable. It decides whether waiting helps, and whether a call fails open.
type Fault int8

// The faults.
const (
	// Outage: the server is away, or cannot do its work for a while. It passes.
	Outage Fault = iota
	// Exhausted: the server does its work, and this process has no connection left to ask it. It passes.
	Exhausted
	// Lasting: nothing changes until somebody changes the configuration, of this process or of the server.
	Lasting
)

// A faulty error knows its fault.
type faulty interface {
	error
	Fault() Fault
}

// A faultError is an error with a fault.
type faultError struct {
	error
	fault Fault
}

func (e *faultError) Unwrap() error { return e.error }

// Fault implements faulty.
func (e *faultError) Fault() Fault { return e.fault }

// WithFault returns err with a fault; the text stays the same.
func WithFault(err error, f Fault) error { return &faultError{err, f} }

// FaultOf returns the fault of an error that wraps ErrUnavailable: an outage if nothing else is said.
func FaultOf(err error) Fault {
	if e, ok := errors.AsType[faulty](err); ok {
		return e.Fault()
	}
	return Outage
}
