package script

import (
	"errors"
	"strconv"
	"strings"

	"github.com/lockmw/go/internal/core"
)

// A MessageKind tells what a message is about.
type MessageKind int8

// The kinds of messages.
const (
	Granted   MessageKind = iota + 1 // the lock was granted to the id, or a permit
	Contended                        // others wait for the lock that the id holds
	TakenAway                        // an operator took the lock away from the id
)

// A Message is what the scripts publish to the inbox of a process. It is only a hint: messages get lost,
// come late, and may have been sent by anybody (rule 7 of docs/protocol.md).
type Message struct {
	Kind MessageKind
	ID   string

	// Of a grant:
	Number int64 // greater than all numbers and tokens before it
	Grant  Grant
	Holder string // the lock's first key
	Permit bool   // of a semaphore
	Run    string // the ids that may have the lock after it by the same hold, separated by commas
}

// ParseMessage reads the payload of a message. It returns false if no script wrote it.
func ParseMessage(payload string) (m Message, ok bool) {
	word, rest, _ := strings.Cut(payload, " ")
	switch word {
	case "grant":
		return parseGrant(rest)
	case "permit":
		return parsePermitGrant(rest)
	case "contended":
		return Message{Kind: Contended, ID: rest}, true
	case "lost":
		return Message{Kind: TakenAway, ID: rest}, true
	}
	return Message{}, false
}

// parseGrant reads "ids number token tokens waiting key"; behind the first of the ids are those of its run.
func parseGrant(text string) (m Message, ok bool) {
	fields := strings.SplitN(text, " ", 6)
	if len(fields) < 6 {
		return m, false
	}
	m = Message{Kind: Granted, Holder: fields[5]}
	m.ID, m.Run, _ = strings.Cut(fields[0], ",")
	var errs [4]error
	for i, n := range []*int64{&m.Number, &m.Grant.Token, &m.Grant.Tokens, &m.Grant.Waiting} {
		*n, errs[i] = strconv.ParseInt(fields[1+i], 10, 64)
	}
	return m, errors.Join(errs[:]...) == nil && m.Grant.Token > 0 && m.Grant.Tokens >= 1
}

// parsePermitGrant reads "id token slots waiting key". The slots are '-' if they were too long.
func parsePermitGrant(text string) (m Message, ok bool) {
	fields := strings.SplitN(text, " ", 5)
	if len(fields) < 5 {
		return m, false
	}
	m = Message{Kind: Granted, ID: fields[0], Holder: fields[4], Permit: true}
	var errs [3]error
	m.Number, errs[0] = strconv.ParseInt(fields[1], 10, 64)
	m.Grant = Grant{Token: m.Number, Tokens: 1}
	m.Grant.Waiting, errs[1] = strconv.ParseInt(fields[3], 10, 64)
	if fields[2] != "-" {
		m.Grant.Slots = fields[2]
		_, errs[2] = core.ParseSlots(fields[2])
	}
	return m, errors.Join(errs[:]...) == nil && m.Number > 0
}
