package locktest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// An audit checks what several processes report of their holds, while they go on: the reports come in
// any order and some of them late, so it keeps the holds of the last while and checks them in the
// order of their tokens when nothing that belongs between them can be under way any more. What it
// needs does not grow with the run. Safe for concurrent use; all times are the machine's.
//
// A hold excludes others from when Lock had returned until Unlock is about to be called, its deadline
// passes or its process is killed, whichever comes first. It counts by the word of its process, which
// says later when it began and sooner when it ends: what is found is never a matter of the reports.
type audit struct {
	mu         sync.Mutex
	accounts   map[string]*account
	holds      int
	wait       time.Duration // the longest
	idle       time.Duration // the longest that a key was free while a call waited for it
	violations []string
	more       int // violations that are not kept
}

// An account is what is kept of one key.
type account struct {
	open []*entry // in the order of their tokens

	// Of the holds before those.
	token      int64
	end        time.Duration // the last of their ends, and whose that was
	endToken   int64
	asked      time.Duration // the last time that one of them was asked for, and which
	askedToken int64
}

// An entry is a hold.
type entry struct {
	process  int
	token    int64
	asked    time.Duration // when Lock was called
	granted  time.Duration // when it had returned
	deadline time.Duration // as last reported
	ended    bool
	end      time.Duration // if ended
}

func newAudit() *audit { return &audit{accounts: make(map[string]*account)} }

func (d *audit) account(key string) *account {
	a := d.accounts[key]
	if a == nil {
		a = &account{}
		d.accounts[key] = a
	}
	return a
}

func (e *entry) ends(at time.Duration) { e.ended, e.end = true, at }

// place is where a token belongs among the open entries, and whether it is there.
func (a *account) place(token int64) (int, bool) {
	return slices.BinarySearchFunc(a.open, token, func(e *entry, token int64) int { return cmp.Compare(e.token, token) })
}

func (a *account) find(token int64) *entry {
	if i, ok := a.place(token); ok {
		return a.open[i]
	}
	return nil
}

// grant notes a new hold.
func (d *audit) grant(key string, e *entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holds++
	d.wait = max(d.wait, e.granted-e.asked)
	a := d.account(key)
	i, taken := a.place(e.token)
	switch {
	case taken:
		d.violate("%s: token %d was given twice", key, e.token)
	case e.token <= a.token:
		d.violate("%s: token %d was given after %d", key, e.token, a.token)
	default:
		a.open = slices.Insert(a.open, i, e)
	}
}

// extend notes a new deadline of a hold.
func (d *audit) extend(key string, token int64, deadline time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.account(key).find(token); e != nil && !e.ended {
		e.deadline = max(e.deadline, deadline)
	}
}

// end notes the end of a hold, and its last deadline.
func (d *audit) end(key string, token int64, deadline, at time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.account(key).find(token); e != nil {
		e.ends(min(at, max(e.deadline, deadline)))
	}
}

// killed notes that a process has ended, whose reports have all been read.
func (d *audit) killed(process int, at time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.accounts {
		for _, e := range a.open {
			if e.process == process && !e.ended {
				e.ends(min(at, e.deadline))
			}
		}
	}
}

// settle checks the holds that were granted before a time. Whoever has not ended is not checked, nor
// are those after it.
func (d *audit) settle(before time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, a := range d.accounts {
		n := 0
		for n < len(a.open) && a.open[n].ended && a.open[n].granted < before {
			d.check(key, a, a.open[n])
			n++
		}
		a.open = slices.Delete(a.open, 0, n)
	}
}

// check compares a hold with all of smaller tokens.
func (d *audit) check(key string, a *account, e *entry) {
	effective := e.granted < e.end // else it was over when its process learned of it
	switch {
	case e.granted < a.asked:
		d.violate("%s: token %d was granted before token %d was asked for", key, e.token, a.askedToken)
	case effective && e.granted < a.end:
		d.violate("%s: token %d was granted %v before the end of token %d", key, e.token, a.end-e.granted, a.endToken)
	case effective && a.token != 0:
		d.idle = max(d.idle, e.granted-max(a.end, e.asked))
	}
	a.token = e.token
	if effective && e.end > a.end {
		a.end, a.endToken = e.end, e.token
	}
	if e.asked > a.asked {
		a.asked, a.askedToken = e.asked, e.token
	}
}

// oldest is when the oldest hold was granted that has not ended; false if there is none.
func (d *audit) oldest() (key string, granted time.Duration, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, a := range d.accounts {
		for _, e := range a.open {
			if !e.ended && (!ok || e.granted < granted) {
				key, granted, ok = k, e.granted, true
			}
		}
	}
	return key, granted, ok
}

// violate notes a violation, and counts them when there are many.
func (d *audit) violate(format string, args ...any) {
	const most = 20
	if len(d.violations) < most {
		d.violations = append(d.violations, fmt.Sprintf(format, args...))
	} else {
		d.more++
	}
}

// blame notes a violation that others have found.
func (d *audit) blame(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.violate(format, args...)
}
