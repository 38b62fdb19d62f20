package judge

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// An Audit checks what several processes report of their holds, while they go on: the reports come in
// any order and some of them late, so it keeps the holds of the last while and checks them in the
// order of their tokens when nothing that belongs between them can be under way any more. What it
// needs does not grow with the run. Safe for concurrent use; all times are the machine's.
//
// A hold excludes others from when Lock had returned until Unlock is about to be called, its deadline
// passes or its process is killed, whichever comes first. It counts by the word of its process, which
// says later when it began and sooner when it ends: what is found is never a matter of the reports.
type Audit struct {
	mu         sync.Mutex
	accounts   map[string]*account
	Holds      int
	Wait       time.Duration // the longest
	Idle       time.Duration // the longest that a key was free while a call waited for it
	Violations []string
	More       int // violations that are not kept
}

// An account is what is kept of one key.
type account struct {
	open []*Entry // in the order of their tokens

	// Of the holds before those.
	token      int64
	end        time.Duration // the last of their ends, and whose that was
	endToken   int64
	asked      time.Duration // the last time that one of them was asked for, and which
	askedToken int64
}

// An Entry is a hold.
type Entry struct {
	Process  int
	Token    int64
	Asked    time.Duration // when Lock was called
	Granted  time.Duration // when it had returned
	Deadline time.Duration // as last reported
	ended    bool
	end      time.Duration // if ended
}

// NewAudit makes one that knows of no hold.
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

// place is where a token belongs among the open entries, and whether it is there.
func (a *account) place(token int64) (int, bool) {
	return slices.BinarySearchFunc(a.open, token, func(e *Entry, token int64) int { return cmp.Compare(e.Token, token) })
}

func (a *account) find(token int64) *Entry {
	if i, ok := a.place(token); ok {
		return a.open[i]
	}
	return nil
}

// Grant notes a new hold.
func (d *Audit) Grant(key string, e *Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Holds++
	d.Wait = max(d.Wait, e.Granted-e.Asked)
	a := d.account(key)
	i, taken := a.place(e.Token)
	switch {
	case taken:
		d.violate("%s: token %d was given twice", key, e.Token)
	case e.Token <= a.token:
		d.violate("%s: token %d was given after %d", key, e.Token, a.token)
	default:
		a.open = slices.Insert(a.open, i, e)
	}
}

// Extend notes a new deadline of a hold.
func (d *Audit) Extend(key string, token int64, deadline time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.account(key).find(token); e != nil && !e.ended {
		e.Deadline = max(e.Deadline, deadline)
	}
}

// End notes the end of a hold, and its last deadline.
func (d *Audit) End(key string, token int64, deadline, at time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.account(key).find(token); e != nil {
		e.ends(min(at, max(e.Deadline, deadline)))
	}
}

// Killed notes that a process has ended, whose reports have all been read.
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

// Settle checks the holds that were granted before a time. Whoever has not ended is not checked, nor
// are those after it.
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

// check compares a hold with all of smaller tokens.
func (d *Audit) check(key string, a *account, e *Entry) {
	effective := e.Granted < e.end // else it was over when its process learned of it
	switch {
	case e.Granted < a.asked:
		d.violate("%s: token %d was granted before token %d was asked for", key, e.Token, a.askedToken)
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

// Oldest is when the oldest hold was granted that has not ended; false if there is none.
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

// violate notes a violation, and counts them when there are many.
func (d *Audit) violate(format string, args ...any) {
	const most = 20
	if len(d.Violations) < most {
		d.Violations = append(d.Violations, fmt.Sprintf(format, args...))
	} else {
		d.More++
	}
}

// Blame notes a violation that others have found.
func (d *Audit) Blame(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.violate(format, args...)
}
