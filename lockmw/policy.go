package lockmw

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A Policy is the sum of a call's options, for observers and for implementations of Locker. Each option documents its field.
type Policy struct {
	Wait       time.Duration // WithWait; 0: try once; Forever: until the context ends
	Lease      time.Duration // WithLease or WithFixedLease
	MaxHold    time.Duration // WithMaxHold; 0: no limit
	MinHold    time.Duration // WithMinHold
	Fixed      bool          // WithFixedLease: the lease is not renewed
	FailOpen   bool          // WithFailOpen
	Stacks     bool          // WithStacks
	MaxWaiters int           // WithMaxWaiters; 0: no limit
	Weight     int           // WithWeight; 0: one permit
	Place      string        // name of WithPlace; "": no place
	KeepPlace  time.Duration // duration of WithPlace
	Name       string        // WithName; "": the key's kind
	Label      string        // WithLabel
	Observers  []*Observer   // WithObserver, the outermost first
	// DeadlockDetection is how long a nested wait lasts before deadlock detection runs; 0: never.
	DeadlockDetection time.Duration

	leads  bool              // set by Lead
	within time.Duration     // set by Once: how far from its tick a run may begin; otherwise 0
	record *core.RecordClaim // set by package idempotency; otherwise nil

	set uint32 // bits by optionKind
}

const (
	minLease   = 100 * time.Millisecond
	maxLease   = 24 * time.Hour
	maxNameLen = 200 // for WithName and the name of WithPlace

	minDetection = 10 * time.Millisecond
)

// NewPolicy returns the sum of the options, and checks them. It is for implementations of Locker. An error wraps
// ErrInvalidOption.
func NewPolicy(opts ...Option) (Policy, error) {
	p := Policy{Wait: Forever, Lease: 30 * time.Second, DeadlockDetection: time.Second}
	err := p.apply(opts)
	return p, err
}

// CheckOptions checks opts for calls of l, so that a wrapper can refuse a mistake when it is made. It returns an error that wraps
// ErrInvalidOption if such calls cannot succeed: an option is invalid, or contradicts another one or the configuration of l. For
// a Locker from outside this module it checks only the options.
func CheckOptions(l Locker, opts ...Option) error {
	k := kindLockerOf(l)
	if k == nil {
		_, err := NewPolicy(opts...)
		return err
	}
	p, err := k.Policy(opts...)
	if err != nil {
		return err
	}
	return k.checkTimes(p.Lease, p.MinHold)
}

// checkTimes returns an error if every call with that lease and minimum hold would fail.
func (l *kindLocker) checkTimes(lease, minHold time.Duration) error {
	if limited, ok := l.locks.(core.LimitedLocks); ok {
		return limited.CheckTimes(lease, minHold)
	}
	return nil
}

// apply adds options to p. A later option replaces an earlier one. Options in WithDefaults only set what is not set after
// that, and nested defaults what is not set after those.
func (p *Policy) apply(opts []Option) error {
	decided := uint32(0) // in the first round options replace those of p
	for len(opts) > 0 {
		deferred, err := p.applyAll(opts, decided, nil)
		if err != nil {
			return err
		}
		opts, decided = deferred, p.set
	}
	if p.leads {
		p.Wait, p.MinHold, p.Fixed, p.FailOpen = Forever, 0, false, false
	}
	if p.once() {
		p.MinHold, p.MaxHold, p.Fixed, p.FailOpen = 0, 0, false, false
		p.Place, p.KeepPlace = "", 0
	}
	if p.record != nil {
		p.MinHold, p.Fixed, p.FailOpen = 0, false, false
		p.Place, p.KeepPlace = "", 0
	}
	return nil
}

// applyAll applies the options that are not decided yet. It returns deferred with the defaults among opts appended.
func (p *Policy) applyAll(opts []Option, decided uint32, deferred []Option) ([]Option, error) {
	var err error
	for i := range opts {
		switch o := &opts[i]; {
		case o.kind == optJoined:
			deferred, err = p.applyAll(o.options, decided, deferred)
		case o.kind == optDefaults:
			deferred = append(deferred, o.options...)
		case o.kind == optObserver || decided&o.bit() == 0:
			err = p.applyOne(o)
		}
		if err != nil {
			return nil, err
		}
	}
	return deferred, nil
}

// once reports whether the call is made by Once.
func (p *Policy) once() bool { return p.within > 0 }

// bit returns the bit of an option in Policy.set. WithFixedLease has that of WithLease.
func (o *Option) bit() uint32 {
	if o.kind == optFixedLease {
		return 1 << optLease
	}
	return 1 << o.kind
}

func (p *Policy) applyOne(o *Option) error {
	switch o.kind {
	case optNone:
		return fmt.Errorf("%w: a zero Option: make options with the functions of this package", ErrInvalidOption)
	case optWait:
		if o.duration < 0 {
			return fmt.Errorf("%w: WithWait(%v): negative", ErrInvalidOption, o.duration)
		}
		p.Wait = o.duration
	case optLease, optFixedLease:
		if o.duration < minLease || o.duration > maxLease {
			return fmt.Errorf("%w: lease of %v, must be from %v to %v", ErrInvalidOption, o.duration, minLease, maxLease)
		}
		p.Lease, p.Fixed = o.duration, o.kind == optFixedLease
	case optMaxHold:
		if o.duration != 0 && o.duration < time.Millisecond {
			return fmt.Errorf("%w: WithMaxHold(%v), must be 0 or at least 1ms", ErrInvalidOption, o.duration)
		}
		p.MaxHold = o.duration
	case optMinHold:
		if o.duration < 0 || o.duration > maxLease {
			return fmt.Errorf("%w: WithMinHold(%v), must be from 0 to %v", ErrInvalidOption, o.duration, maxLease)
		}
		p.MinHold = o.duration
	case optMaxWaiters:
		if o.n < 0 {
			return fmt.Errorf("%w: WithMaxWaiters(%d): negative", ErrInvalidOption, o.n)
		}
		p.MaxWaiters = o.n
	case optWeight:
		if o.n < 1 || o.n > core.MaxPermits {
			return fmt.Errorf("%w: WithWeight(%d), must be from 1 to %d", ErrInvalidOption, o.n, core.MaxPermits)
		}
		p.Weight = o.n
	case optPlace:
		if o.text == "" || len(o.text) > maxNameLen {
			return fmt.Errorf("%w: WithPlace with a name of %d bytes, must be from 1 to %d", ErrInvalidOption, len(o.text), maxNameLen)
		}
		if o.duration < time.Millisecond || o.duration > maxLease {
			return fmt.Errorf("%w: WithPlace for %v, must be from 1ms to %v", ErrInvalidOption, o.duration, maxLease)
		}
		p.Place, p.KeepPlace = o.text, o.duration
	case optName:
		if len(o.text) > maxNameLen {
			return fmt.Errorf("%w: WithName of %d bytes, must be at most %d", ErrInvalidOption, len(o.text), maxNameLen)
		}
		p.Name = o.text
	case optLabel:
		if err := core.CheckLabel(o.text); err != nil {
			return fmt.Errorf("%w: WithLabel", err)
		}
		p.Label = o.text
	case optStacks:
		p.Stacks = true
	case optDeadlock:
		if o.duration != 0 && (o.duration < minDetection || o.duration > maxLease) {
			return fmt.Errorf("%w: WithDeadlockDetection(%v), must be 0 or from %v to %v", ErrInvalidOption, o.duration, minDetection, maxLease)
		}
		p.DeadlockDetection = o.duration
	case optFailOpen:
		p.FailOpen = true
	case optLead:
		p.leads = true
	case optOnce:
		p.within = o.duration
	case optRecord:
		p.record = o.record
	case optObserver:
		if o.observer == nil {
			return fmt.Errorf("%w: WithObserver(nil)", ErrInvalidOption)
		}
		if !slices.Contains(p.Observers, o.observer) {
			p.Observers = append(slices.Clip(p.Observers), o.observer)
		}
	}
	p.set |= o.bit()
	return nil
}
