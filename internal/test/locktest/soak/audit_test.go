package soak

import (
	"math"
	"strings"
	"testing"
	"time"
)

// held reports a hold; times are in milliseconds. An end of 0 means that Unlock is not called.
func held(process int, token int64, asked, granted, deadline, end int) func(*Audit) {
	const ms = time.Millisecond
	return func(d *Audit) {
		d.Grant("k", &Entry{
			Process: process, Token: token, Asked: time.Duration(asked) * ms,
			Granted: time.Duration(granted) * ms, Deadline: time.Duration(deadline) * ms,
		})
		if end > 0 {
			d.End("k", token, 0, time.Duration(end)*ms)
		}
	}
}

func TestAudit(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		reports []func(*Audit)
		want    string // part of the only violation; "" if there is none
	}{
		"one after the other": {[]func(*Audit){
			held(1, 7, 0, 10, 100, 20), held(2, 8, 5, 25, 100, 30), held(1, 9, 15, 35, 100, 40),
		}, ""},
		"reports in reverse order": {[]func(*Audit){
			held(1, 9, 15, 35, 100, 40), held(2, 8, 5, 25, 100, 30), held(1, 7, 0, 10, 100, 20),
		}, ""},
		"two holders": {[]func(*Audit){
			held(1, 7, 0, 10, 100, 30), held(2, 8, 5, 25, 100, 40),
		}, "token 8 was granted 5ms before the end of token 7"},
		"two holders, reported in reverse order": {[]func(*Audit){
			held(2, 8, 5, 25, 100, 40), held(1, 7, 0, 10, 100, 30),
		}, "token 8 was granted 5ms before the end of token 7"},
		"a holder during the hold before the last": {[]func(*Audit){
			held(1, 7, 0, 10, 100, 50), held(2, 8, 5, 60, 55, 70), held(3, 9, 5, 45, 100, 48),
		}, "token 9 was granted 5ms before the end of token 7"},
		"a holder after the deadline of a hold that ends late": {[]func(*Audit){
			held(1, 7, 0, 10, 20, 30), held(2, 8, 5, 25, 100, 40),
		}, ""},
		"a holder before an extended deadline": {[]func(*Audit){
			held(1, 7, 0, 10, 20, 0), func(d *Audit) { d.Extend("k", 7, 50*ms) },
			held(2, 8, 5, 25, 100, 40), func(d *Audit) { d.End("k", 7, 50*ms, 60*ms) },
		}, "token 8 was granted 25ms before the end of token 7"},
		"an extended deadline that is reported with the end": {[]func(*Audit){
			held(1, 7, 0, 10, 20, 0), held(2, 8, 5, 25, 100, 40), func(d *Audit) { d.End("k", 7, 50*ms, 45*ms) },
		}, "token 8 was granted 20ms before the end of token 7"},
		"a holder after the previous holder was killed": {[]func(*Audit){
			held(1, 7, 0, 10, 100, 0), func(d *Audit) { d.Killed(1, 20*ms) }, held(2, 8, 5, 25, 100, 40),
		}, ""},
		"a holder before the previous holder was killed": {[]func(*Audit){
			held(1, 7, 0, 10, 100, 0), held(2, 8, 5, 25, 100, 40), func(d *Audit) { d.Killed(1, 30*ms) },
		}, "token 8 was granted 5ms before the end of token 7"},
		"a holder that was killed after its deadline": {[]func(*Audit){
			held(1, 7, 0, 10, 20, 0), held(2, 8, 5, 25, 100, 40), func(d *Audit) { d.Killed(1, 30*ms) },
		}, ""},
		"a holder after another process was killed": {[]func(*Audit){
			held(1, 7, 0, 10, 100, 0), held(2, 8, 5, 25, 100, 40),
			func(d *Audit) { d.Killed(2, 5*ms) }, func(d *Audit) { d.End("k", 7, 0, 30*ms) },
		}, "token 8 was granted 5ms before the end of token 7"},
		"a holder that learned of its grant after its deadline": {[]func(*Audit){
			held(1, 7, 0, 50, 40, 60), held(2, 8, 5, 45, 100, 47),
		}, ""},
		"a token that is granted twice": {[]func(*Audit){
			held(1, 7, 0, 10, 100, 20), held(2, 7, 5, 25, 100, 40),
		}, "token 7 was granted twice"},
		"a token that decreases": {[]func(*Audit){
			held(1, 8, 0, 10, 100, 20), held(2, 7, 25, 30, 100, 40),
		}, "token 8 was granted before the call of token 7 began"},
		"a token that decreases after the previous hold was checked": {[]func(*Audit){
			held(1, 8, 0, 10, 100, 20), func(d *Audit) { d.Settle(math.MaxInt64) }, held(2, 7, 25, 30, 100, 40),
		}, "token 7 was granted after 8"},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewAudit()
			for _, report := range test.reports {
				report(d)
			}
			d.Settle(math.MaxInt64)
			switch got := d.Violations; {
			case test.want == "" && len(got) > 0:
				t.Errorf("found %q", got)
			case test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)):
				t.Errorf("found %q, want one with %q", got, test.want)
			}
		})
	}
}

func TestAuditDropsCheckedHolds(t *testing.T) {
	d := NewAudit()
	for i := range 1000 {
		held(1, int64(i+1), 10*i, 10*i+1, 10*i+100, 10*i+9)(d)
		if i%10 == 0 {
			d.Settle(time.Duration(10*i-1000) * time.Millisecond)
		}
	}
	if n := len(d.accounts["k"].open); n > 120 {
		t.Errorf("%d of 1000 holds are kept", n)
	}
	held(1, 2000, 20000, 20001, 20100, 0)(d)
	d.Settle(math.MaxInt64)
	if key, at, ok := d.Oldest(); !ok || key != "k" || at != 20001*time.Millisecond {
		t.Errorf("the oldest hold that has not ended: key %q, %v, %v", key, at, ok)
	}
	if d.Holds != 1001 || len(d.Violations) > 0 {
		t.Errorf("%d holds, violations %q", d.Holds, d.Violations)
	}
	if d.Wait != time.Millisecond || d.Idle != time.Millisecond {
		t.Errorf("the longest wait is %v, the longest idle time %v", d.Wait, d.Idle)
	}
}
