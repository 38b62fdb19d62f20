package script_test

import (
	"strings"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// crowd queues several callers of one process together, by queue_batch.lua and, for those that it leaves, by acquire.lua.
//
//	crowd a b c      in strict order; crowdwrite to write, crowdtrace with traces
//	crowd+ a b c     with a subscription
func (w *twin) crowd(verb string, ids []string) {
	d := w.stage
	kind, subscribed := strings.CutSuffix(verb, "+")
	keys, args := d.SixKeys(), []any{scripttest.Lease.Milliseconds(), d.Inbox("p"), "1r:" + secretText("p"), "fair"}
	all := make([]*script.Acquire, len(ids))
	for i, id := range ids {
		a := scripttest.Acquire{ID: id, Process: "p", Mode: core.Fair, Runs: true}
		switch kind {
		case "crowdwrite":
			a.Mode, args[3] = core.Write, "write"
		case "crowdtrace":
			a.Trace = "trace-" + id
		}
		all[i] = a.Operation(d.Driver)
		keys = append(keys, d.Keys.Done(id))
		args = append(args, id, all[i].Info.String(), a.Trace)
	}
	answers := make([]any, len(ids))
	if !w.singly {
		answer, err := d.Eval("queue_batch", keys, args...)
		if w.said = nil; err == nil {
			answers = answer.([]any)
		}
	}
	for i, a := range all {
		if list, ok := answers[i].([]any); ok {
			w.says(list, nil)
		} else {
			_, _ = script.AcquireAnswer(d.Send(a), "")
		}
	}
	if subscribed {
		d.Beat("p", true)
	}
}

// crowdLine makes a random line about such callers.
func crowdLine(r scripttest.Teller) string {
	return r.Pick("crowd", "crowd", "crowd+", "crowdwrite", "crowdtrace") + " " + r.Pick("a b c", "b c d", "c d e f", "a", "f a b", "a a b")
}

// crowdStories are stories about such callers.
var crowdStories = []string{
	"crowd a b c",
	"run a\ncrowd b c d\nrelease a\nserved b c d",
	"wait e\ncrowd a b\ncrowd+ c d\nlater 100\nrelease e\nrelease a\npoll c",
	"wait e\ncrowdwrite a b c\nread d\ncrowdwrite d f\nrelease e",
	"wait e\ncrowdtrace a b c\nrelease e\nrelease a",
	"run a\ncrowd a b c\ncrowd b c d\ncrowd b d",
	"run a\ncrowd b b c",
	"run a\nmark b\ncancel c\ncrowd b c d",
	"run a\nrun b\nmark c\ncrowd c d",
	"run a\nrun b\ncancel c\ncrowd d c e",
	"run a\ncrowd b c\nlater 190\ncrowd d e\nlater 3000\ncrowd f",
	"read a\ncrowd b c d",
	"run a\nread b\ncrowd c d",
	"run a\nkeep b\nleave b\ncrowd c d\nkeep b",
	"run a\nT hset b x\ncrowd b c d",
	"run a\nrun e\nQ zrem e\nQ zadd 12 b\ncrowd b c d",
	"run a\nrun e\nT hdel e\ncrowd e c d\nrelease a",
	"run a\nT set x\ncrowd b c d",
	"run a\nQ set x\ncrowd b c d",
	"run a\nF set x\ncrowd b c d",
	"run a\nF del\ncrowd b c d",
	"run a\nF set 2999999999999999\ncrowd b c d",
	"run a\nQ zadd 2999999999999999 x\ncrowd b c d",
	"H set x\ncrowd b c d",
	"H hset id x\ncrowd b c d",
	"run a\nH hset wanted 1\ncrowd b c d",
	"wait a 9\ncrowd b c d",
	"run a\nH hset tokens 2 mode exclusive\ncrowd b c d",
	"run a\nH persist\ncrowd b c d",
	"run a\nR zadd 1 x\ncrowd b c d",
	"run a\nrun b\nQ zadd 1 #readers\ncrowd c d",
}
