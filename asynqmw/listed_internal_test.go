package asynqmw

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/internal/parked"
)

// reads compares what a Reader says of the tasks that wait for the lock.
func (tb *table) reads(want ...string) {
	tb.t.Helper()
	tb.do("SADD", parked.AllQueues, "default") // as asynq does
	list, err := parked.NewReader(tb.rdb, "lockmw").Tasks(tb.t.Context(), "item:7")
	if err != nil || list.More != 0 {
		tb.t.Errorf("%+v, %v", list, err)
	}
	var got []string
	for _, task := range list.Tasks {
		got = append(got, fmt.Sprintf("%d %s %s", task.Place, task.ID, task.State))
	}
	if !slices.Equal(got, want) {
		tb.t.Errorf("waiting: %q, want %q", got, want)
	}
}

func TestAReaderSaysWhatBecomesOfParkedTasks(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b")
		tb.task("c", "active", "")
		c := tb.call("c")
		c.last = true
		tb.asks(c, parkAnswer{what: parkTask, rank: 2})
		tb.archives("c", "asynqmw: parked (Nc): busy")
		tb.reads("1 a parked", "2 b parked", "3 c parked")

		tb.promotes(1, callAnyway, promotion{moved: 1, left: 3})
		tb.reads("1 a called", "2 b parked", "3 c parked")
		tb.comes("a")
		stays := tb.call("a")
		stays.nonce, stays.stay = "N2", time.Minute
		tb.asks(stays, parkAnswer{what: waitInWorker, called: true})
		tb.reads("1 a waiting", "2 b parked", "3 c parked")
		tb.do("HSET", parked.TaskPrefix("default")+"b", "state", "active", "lockmw", "Nb p99999999999999999 1") // it leaves its worker
		tb.reads("1 a waiting", "2 b parked", "3 c parked")

		// It gets the lock, and the others fail, are completed or deleted.
		tb.ages("a")
		tb.reads("1 b parked", "2 c parked")
		tb.task("b", "retry", "the handler failed")
		tb.reads("1 c parked")
		tb.do("DEL", parked.TaskPrefix("default")+"c")
		tb.reads()
	})
}
