package transport_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/transport"
)

// explain is a child process with a server that answers after the given time. Whenever it is ordered to, it looks why its pool is
// exhausted. It reports that the server was asked, and then what it has found.
func explain(answerAfter time.Duration, orders *json.Decoder, reports *json.Encoder) error {
	runtime.GOMAXPROCS(1) // the timers that are due after a standstill run before any goroutine
	rdb := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		if err := reports.Encode("asked"); err != nil {
			return nil, err
		}
		go func() {
			_, _ = io.ReadFull(server, make([]byte, len("*1\r\n$4\r\nPING\r\n")))
			time.Sleep(answerAfter)
			_, _ = io.WriteString(server, "+PONG\r\n")
		}()
		return client, nil
	}})
	defer rdb.Close()
	for {
		var order string
		if err := orders.Decode(&order); err != nil {
			return err
		}
		var d transport.Diagnoses
		begun := time.Now()
		err := d.Explain(rdb, redis.ErrPoolTimeout)
		found := explanation{core.FaultOf(err) == core.Exhausted, time.Since(begun)}
		d.Stop()
		if err := reports.Encode(found); err != nil {
			return err
		}
	}
}

type explanation struct {
	Answers bool // the server
	Took    time.Duration
}

// A process that stands still, like one that gets too little of a processor, does not take that for the silence of a server.
func TestADiagnosisMissesNoAnswerWhileItsProcessStandsStill(t *testing.T) {
	t.Parallel()
	const still = 2 * transport.DiagnoseTimeout
	child := redistest.StartChild(t, transport.DiagnoseTimeout/2)
	for range 1000 {
		child.Order("explain")
		<-child.Reports() // asked
		child.Pause(t)
		time.Sleep(still)
		child.Resume(t)
		var found explanation
		if err := json.Unmarshal(<-child.Reports(), &found); err != nil {
			t.Fatal(err)
		}
		switch awake := found.Took - still; {
		case awake < 0: // it was stopped too late
		case found.Answers:
			return
		case awake < transport.DiagnoseTimeout/2: // otherwise a busy machine has left it no time to read the answer
			t.Fatalf("after %v a server that answers is taken for a silent one", found.Took)
		}
	}
	t.Error("no diagnosis was interrupted")
}
