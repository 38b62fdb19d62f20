package script

import (
	"crypto/sha1"
	"errors"
	"strconv"
	"strings"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/keyed"
)

// A MessageKind is the subject of a message.
type MessageKind int8

// Kinds of messages.
const (
	Granted   MessageKind = iota + 1 // the id was granted the lock or a permit
	Contended                        // others wait for the lock that the id holds
	TakenAway                        // an operator released the hold of the id by force
)

// A Message is published to the inbox of a process by a script. It is only a hint: messages get lost and come late, and any
// client may have sent one (rule 7 of docs/protocol.md).
type Message struct {
	Kind MessageKind
	ID   string

	// Of a grant:
	Number     int64 // greater than all earlier numbers and tokens
	Grant      Grant
	Holder     string // first key of the lock
	Permit     bool   // of a semaphore
	GrantBatch string // ids of the grant batch, without ID, separated by commas

	text, proof string // see IsProven
}

// maxMessage is the length of the longest message that a script writes. It contains the ids of a grant batch, numbers, a
// prefix, and a key of which each byte may be escaped.
const maxMessage = MaxGrantBatch*64 + 512 + 3*keyed.MaxLen + 512

// ParseMessage reads the payload of a message. It returns false if a script cannot have written it. A grant may be forged all
// the same: see IsProven.
func ParseMessage(payload string) (m Message, ok bool) {
	if len(payload) > maxMessage {
		return m, false
	}
	word, rest, _ := strings.Cut(payload, " ")
	switch word {
	case "grant", "permit":
		return parseProven(payload)
	case "contended":
		return Message{Kind: Contended, ID: rest}, true
	case "lost":
		return Message{Kind: TakenAway, ID: rest}, true
	}
	return Message{}, false
}

// parseProven reads the message of a grant, which ends with a proof.
func parseProven(payload string) (m Message, ok bool) {
	end := len(payload) - 2*sha1.Size - 1
	if end < 0 || payload[end] != ' ' {
		return m, false
	}
	if rest, isPermit := strings.CutPrefix(payload[:end], "permit "); isPermit {
		m, ok = parsePermitGrant(rest)
	} else {
		m, ok = parseGrant(strings.TrimPrefix(payload[:end], "grant "))
	}
	m.text, m.proof = payload[:end], payload[end+1:]
	return m, ok
}

// parseGrant reads "ids number token tokens waiting key". The first id is the ticket's; the ids of its grant batch follow.
func parseGrant(text string) (m Message, ok bool) {
	fields := strings.SplitN(text, " ", 6)
	if len(fields) < 6 {
		return m, false
	}
	m = Message{Kind: Granted, Holder: fields[5]}
	m.ID, m.GrantBatch, _ = strings.Cut(fields[0], ",")
	var errs [4]error
	for i, n := range []*int64{&m.Number, &m.Grant.Token, &m.Grant.Tokens, &m.Grant.Waiting} {
		*n, errs[i] = strconv.ParseInt(fields[1+i], 10, 64)
	}
	return m, errors.Join(errs[:]...) == nil && m.Grant.Token > 0 && m.Grant.Tokens >= 1
}

// parsePermitGrant reads "id token slots waiting key". The slots are '-' if their list was too long.
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
