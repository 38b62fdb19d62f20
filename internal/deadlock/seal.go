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

// Anybody who may publish to an inbox may send any message there, and hears the messages of others. So detectors seal their messages by
// a secret that is kept next to the locks: only a client that may read and write these knows it (rule 27 of docs/protocol.md). A seal is for one inbox,
// and a question counts once: who repeats what was heard gets no second answer.

// Seal returns a message to an inbox with its seal. body is the message itself.
func Seal(secret, inbox, body string) string { return Word + sealOf(secret, inbox, body) + " " + body }

func sealOf(secret, inbox, body string) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(inbox))
	h.Write([]byte{' '})
	h.Write([]byte(body))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// unseal returns the message itself; false if it has not the seal that the secret gives it.
func unseal(secret, inbox, text string) (body string, ok bool) {
	seal, body, ok := strings.Cut(strings.TrimPrefix(text, Word), " ")
	return body, ok && secret != "" && hmac.Equal([]byte(seal), []byte(sealOf(secret, inbox, body)))
}

// A seals is the secret, as the server had it lately, and what was asked so far.
type seals struct {
	t Transport

	mu     sync.Mutex
	secret string
	read   time.Time         // when it was read last
	asked  map[string]uint64 // the number of the last question, by the inbox for the answer
}

const (
	// secretGap is how much time is at least between two reads of the secret because of messages that are not sealed by it, and
	// secretAge how old it may be when a message is sealed.
	secretGap = time.Second
	secretAge = 10 * time.Second
	// maxAskers is of how many inboxes the last question is known.
	maxAskers = 4096
)

// current returns the secret, which is not older than that.
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

// open returns the message itself; false if it is not sealed by the secret that is known.
func (s *seals) open(inbox, text string) (body string, ok bool) {
	s.mu.Lock()
	secret := s.secret
	s.mu.Unlock()
	return unseal(secret, inbox, text)
}

// mayRead reports whether the secret may be read now: it was read that long ago, or it is not known. It counts as read then.
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

// isNew reports whether a question was not heard before.
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
