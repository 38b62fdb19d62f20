package core

import "errors"

// A Fault is the cause of ErrUnavailable. It decides whether waiting helps, and whether a call fails open.
type Fault int8

// The faults.
const (
	// Outage: the server is unreachable, or cannot work at present. It is temporary.
	Outage Fault = iota
	// Exhausted: the server works, but this process has no free connection to it. It is temporary.
	Exhausted
	// Lasting: the configuration of this process or of the server must be changed first.
	Lasting
)

// A faulty error has a fault.
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

// WithFault returns err with a fault. The text stays the same.
func WithFault(err error, f Fault) error { return &faultError{err, f} }

// FaultOf returns the fault of an error that wraps ErrUnavailable. The default is Outage.
func FaultOf(err error) Fault {
	if e, ok := errors.AsType[faulty](err); ok {
		return e.Fault()
	}
	return Outage
}
