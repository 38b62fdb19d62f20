package script

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// An Outcome is the state of an id in an answer.
type Outcome int8

// Outcomes.
const (
	Unknown Outcome = iota // the answer was an error
	Held                   // the id holds the lock
	Queued                 // its ticket waits, or the lock is busy
	Over                   // the id has ended, or it neither holds nor waits
	Again                  // run the script again: one execution could not do everything
	Done                   // done
	More                   // done, and a Poll must follow immediately: see Again
	NotHeld                // the id does not hold the lock
	Settled                // the record of the key decides what the call gets
)

// A Grant contains a token for the hold, and a token for each time that the process may pass the lock on without a command.
type Grant struct {
	Token   int64 // the first one
	Tokens  int64 // number of tokens
	Waiting int64 // tickets in the queue at that time

	Slots string // of a permit, such as "0-2,5"; "" in a message without slots: a poll reports them

	Opened      bool  // the record of the key was opened
	Earlier     int   // runs before that left no outcome
	RecordToken int64 // of the record
}

// readHolders reads the answer of describe in locks.lua up to its end. It returns nil if the lock is free.
func readHolders(r *transport.Reply, inboxPrefix string) []core.Holder {
	ttl := r.TTL()
	if r.Err != nil || r.Left() == 0 {
		return nil
	}
	now := time.UnixMicro(r.Int())
	var holders []core.Holder
	for r.Err == nil && r.Left() > 0 {
		info, inbox, token, since, trace := r.Text(), r.Text(), r.Int(), r.Int(), r.Text()
		h := core.Holder{
			Process: processOf(inbox, inboxPrefix), TraceParent: trace,
			Token: token, Since: core.Instant(since, time.Microsecond), TTL: ttl,
		}
		DescribeHolder(&h, info, now)
		holders = append(holders, h)
	}
	return holders
}

// readGrant reads the tokens of a grant.
func readGrant(r *transport.Reply) Grant {
	g := Grant{Token: r.Int(), Tokens: r.Int(), Waiting: r.Int()}
	if r.Err == nil && !g.isValid() {
		r.Err = fmt.Errorf("%w: token %d, %d of them", transport.ErrMalformed, g.Token, g.Tokens)
	}
	return g
}

func (g *Grant) isValid() bool {
	return g.Token >= 1 && g.Tokens >= 1 && g.Tokens <= math.MaxInt64-g.Token
}

// readToken reads an answer that is only a fencing token.
func readToken(r *transport.Reply) (token int64, ok bool) {
	if r.Err != nil {
		return 0, false
	}
	text, ok := r.Single().(string)
	if !ok {
		return 0, false
	}
	token, err := strconv.ParseInt(text, 10, 64)
	return token, err == nil && token > 0
}

// EndedAnswer reads the answer to a Release, Downgrade, Cancel, Disown, Force or ReportWaiters: Done, More or NotHeld. The answer
// to a Release with a Record begins with the answer to a RecordEnd.
func EndedAnswer(r *transport.Reply) (Outcome, error) {
	code := r.Int()
	switch {
	case r.Err != nil:
		return Unknown, r.Err
	case code == 0:
		return NotHeld, nil
	case code == 2:
		return More, nil
	}
	return Done, nil
}
