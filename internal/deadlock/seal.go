package deadlock

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"time"
)

// Any client that may publish to an inbox can send any message there, and receive the messages of others. So detectors seal their
// messages with a secret that is kept next to the locks: only a client that may read and write the locks has it (rule 27 of
// docs/protocol.md). A seal is for one inbox, and a question counts once, so a repeated question gets no second answer.

// Seal returns a message to an inbox with its seal. body is the message itself.
func Seal(secret, inbox, body string) string {
	return MessagePrefix + sealOf(secret, inbox, body) + " " + body
}

func sealOf(secret, inbox, body string) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(inbox + " " + body))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// unseal returns the message itself, and false if its seal does not match the secret.
func unseal(secret, inbox, text string) (body string, ok bool) {
	seal, body, ok := strings.Cut(strings.TrimPrefix(text, MessagePrefix), " ")
	return body, ok && secret != "" && hmac.Equal([]byte(seal), []byte(sealOf(secret, inbox, body)))
}

// A seals has the secret, as last read from the server, and the questions received so far.
type seals struct {
	t Transport

	mu     sync.Mutex
	secret string
	read   time.Time         // when it was last read
	asked  map[string]uint64 // the number of the last question, by the inbox for its answer
}

const (
	// secretGap is the minimum time between two reads of the secret because of messages that it does not seal. secretAge is how
	// old the secret may be when a message is sealed.
	secretGap = time.Second
	secretAge = 10 * time.Second
	// maxAskers limits the inboxes for which the last question is kept.
	maxAskers = 4096
)

// current returns the secret, at most age old.
func (s *seals) current(ctx context.Context, age time.Duration) string {
	s.mu.Lock()
	secret, fresh := s.secret, s.secret != "" && time.Since(s.read) < age
	s.mu.Unlock()
	if fresh {
		return secret
	}
	if secret = s.t.Secret(ctx); secret == "" {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secret, s.read = secret, time.Now()
	return secret
}

// open returns the message itself, and false if the known secret does not seal it.
func (s *seals) open(inbox, text string) (body string, ok bool) {
	s.mu.Lock()
	secret := s.secret
	s.mu.Unlock()
	return unseal(secret, inbox, text)
}

// mayRead reports whether the secret may be read now: it was read at least age ago, or it is unknown. The read then counts as
// done.
func (s *seals) mayRead(age time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.secret == "" {
		age = secretGap
	}
	if !s.read.IsZero() && time.Since(s.read) < age {
		return false
	}
	s.read = time.Now()
	return true
}

// isNew reports whether a question has not been received before.
func (s *seals) isNew(m *message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil || len(s.asked) >= maxAskers {
		s.asked = make(map[string]uint64)
	}
	if s.asked[m.From] >= m.Number {
		return false
	}
	s.asked[m.From] = m.Number
	return true
}
