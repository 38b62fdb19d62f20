package script_test

import (
	"github.com/lockmw/go/internal/test/scripttest"
)

// scriptLine makes up a line of a stage.
func scriptLine(r scripttest.Teller) string {
	switch r.IntN(14) {
	case 0:
		return "later " + r.Pick("1", "800", "2300", "3100", "31000", "61000")
	case 1, 2:
		return r.Pick("wait", "wait+", "try") + " " + r.ID() + r.Pick("", " 40", " 40 9")
	case 3, 4:
		return r.Pick("read", "read", "read+", "tryread") + " " + r.ID()
	case 5:
		return r.Pick("keep", "trykeep", "away", "leave") + " " + r.ID()
	case 6:
		return r.Pick("over", "lost", "lostread") + " " + r.ID() + " " + r.ID() + r.Pick("", " 1", " 9007199254740991")
	case 7:
		return "tell " + r.ID() + " " + r.Pick("0", "1", "12") + " " + r.Pick("1", "2", "3")
	case 8:
		return r.Pick("poll", "poll+") + " " + r.Pick("", r.ID(), r.ID()+" "+r.ID())
	case 9, 10, 11:
		return r.Pick("run", "run", "run", "run+", "runwrite") + " " + r.Pick("a", "b", "c", "d", "e")
	case 12:
		return r.Pick("served", "served", "unserved") + " " + r.ID() + " " + r.ID() + r.Pick("", " "+r.ID())
	}
	return r.Pick("renew", "release", "linger", "mark", "cancel", "release", "force", "down", "release") + " " + r.ID()
}
