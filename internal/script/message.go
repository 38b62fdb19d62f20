package script

import (
	"errors"
	"strconv"
	"strings"
)

// A MessageKind tells what a message is about.
type MessageKind int8

// The kinds of messages.
const (
	Granted   MessageKind = iota + 1 // the lock was granted to the id
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
}

// ParseMessage reads the payload of a message. It returns false if no script wrote it.
func ParseMessage(payload string) (m Message, ok bool) {
	word, rest, _ := strings.Cut(payload, " ")
	switch word {
	case "grant":
		return parseGrant(rest)
	case "contended":
		return Message{Kind: Contended, ID: rest}, true
	case "lost":
		return Message{Kind: TakenAway, ID: rest}, true
	}
	return Message{}, false
}

// parseGrant reads "id number token tokens waiting key".
func parseGrant(text string) (m Message, ok bool) {
	fields := strings.SplitN(text, " ", 6)
	if len(fields) < 6 {
		return m, false
	}
	m = Message{Kind: Granted, ID: fields[0], Holder: fields[5]}
	var errs [4]error
	for i, n := range []*int64{&m.Number, &m.Grant.Token, &m.Grant.Tokens, &m.Grant.Waiting} {
		*n, errs[i] = strconv.ParseInt(fields[1+i], 10, 64)
	}
	return m, errors.Join(errs[:]...) == nil && m.Grant.Token > 0 && m.Grant.Tokens >= 1
}
