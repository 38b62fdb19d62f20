package soak

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// An Audit checks reports of several processes about their holds, while the processes run. Reports arrive in any order, some of
// them late. So the Audit keeps recent holds, and checks them in token order once no earlier report can be missing. Its memory
// use does not grow with the run. It is safe for concurrent use; all times are the machine's.
//
// A hold is exclusive from the return of Lock until Unlock is called, its deadline passes or its process is killed, whichever
// comes first. Processes report a start late and an end early, so the delays of reports cause no false violations.
type Audit struct {
	mu         sync.Mutex
	accounts   map[string]*account
	Holds      int
	Wait       time.Duration // the longest wait
	Idle       time.Duration // the longest time that a key was free while a call waited for it
	Violations []string
	More       int // violations that are not kept
}

// An account is the state of one key.
type account struct {
	open []*Entry // in token order

	// About the holds before open:
	token      int64
	end        time.Duration // the latest end
	endToken   int64
	asked      time.Duration // the latest start of a call
	askedToken int64
}

// An Entry is a hold.
type Entry struct {
	Process  int
	Token    int64
	Asked    time.Duration // when Lock was called
	Granted  time.Duration // when Lock returned
	Deadline time.Duration // as last reported
	ended    bool
	end      time.Duration // if ended
}

// NewAudit returns an Audit without holds.
func NewAudit() *Audit { return &Audit{accounts: make(map[string]*account)} }

func (d *Audit) account(key string) *account {
	a := d.accounts[key]
	if a == nil {
		a = &account{}
		d.accounts[key] = a
	}
	return a
}

func (e *Entry) ends(at time.Duration) { e.ended, e.end = true, at }

// place returns the position of a token among the open entries, and whether it is there.
func (a *account) place(token int64) (int, bool) {
	return slices.BinarySearchFunc(a.open, token, func(e *Entry, token int64) int { return cmp.Compare(e.Token, token) })
}

func (a *account) find(token int64) *Entry {
	if i, ok := a.place(token); ok {
		return a.open[i]
	}
	return nil
}

// Grant records a new hold.
func (d *Audit) Grant(key string, e *Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Holds++
	d.Wait = max(d.Wait, e.Granted-e.Asked)
	a := d.account(key)
	i, taken := a.place(e.Token)
	switch {
	case taken:
		d.violate("%s: token %d was granted twice", key, e.Token)
	case e.Token <= a.token:
		d.violate("%s: token %d was granted after %d", key, e.Token, a.token)
	default:
		a.open = slices.Insert(a.open, i, e)
	}
}

// Extend records a new deadline of a hold.
func (d *Audit) Extend(key string, token int64, deadline time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.account(key).find(token); e != nil && !e.ended {
		e.Deadline = max(e.Deadline, deadline)
	}
}

// End records the end of a hold and its last deadline.
func (d *Audit) End(key string, token int64, deadline, at time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.account(key).find(token); e != nil {
		e.ends(min(at, max(e.Deadline, deadline)))
	}
}

// Killed records that a process has ended. All of its reports have been read.
func (d *Audit) Killed(process int, at time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.accounts {
		for _, e := range a.open {
			if e.Process == process && !e.ended {
				e.ends(min(at, e.Deadline))
			}
		}
	}
}

// Settle checks the holds that were granted before the given time, up to the first one that has not ended.
func (d *Audit) Settle(before time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, a := range d.accounts {
		n := 0
		for n < len(a.open) && a.open[n].ended && a.open[n].Granted < before {
			d.check(key, a, a.open[n])
			n++
		}
		a.open = slices.Delete(a.open, 0, n)
	}
}

// check compares a hold with all holds of smaller tokens.
func (d *Audit) check(key string, a *account, e *Entry) {
	effective := e.Granted < e.end // otherwise it had ended when its process learned of it
	switch {
	case e.Granted < a.asked:
		d.violate("%s: token %d was granted before the call of token %d began", key, e.Token, a.askedToken)
	case effective && e.Granted < a.end:
		d.violate("%s: token %d was granted %v before the end of token %d", key, e.Token, a.end-e.Granted, a.endToken)
	case effective && a.token != 0:
		d.Idle = max(d.Idle, e.Granted-max(a.end, e.Asked))
	}
	a.token = e.Token
	if effective && e.end > a.end {
		a.end, a.endToken = e.end, e.Token
	}
	if e.Asked > a.asked {
		a.asked, a.askedToken = e.Asked, e.Token
	}
}

// Oldest returns the key and the grant of the oldest hold that has not ended; ok is false if there is none.
func (d *Audit) Oldest() (key string, granted time.Duration, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, a := range d.accounts {
		for _, e := range a.open {
			if !e.ended && (!ok || e.Granted < granted) {
				key, granted, ok = k, e.Granted, true
			}
		}
	}
	return key, granted, ok
}

// violate keeps the first violations and counts the others.
func (d *Audit) violate(format string, args ...any) {
	const most = 20
	if len(d.Violations) < most {
		d.Violations = append(d.Violations, fmt.Sprintf(format, args...))
	} else {
		d.More++
	}
}

// Blame records a violation that another check has found.
func (d *Audit) Blame(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.violate(format, args...)
}
