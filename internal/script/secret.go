package script

import (
	"crypto/rand"
	"crypto/sha1" // the only hash in the scripts of Redis
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
)

// Secrets make the secrets of one engine, one for each lock. The secret goes to the server with the tickets for that lock, and
// is in no message. The script that grants the lock uses it to prove that it wrote the message of the grant (rule 27 of
// docs/protocol.md). Secrets are derived from a key that never leaves the process, so a message can still be checked after its
// request has ended. Secrets are safe for concurrent use.
type Secrets struct {
	key [32]byte
}

// secretLen is the length of a Secret in bytes, which has 96 random bits.
const secretLen = 16

// A Secret is the secret of a process' tickets for one lock, as text. The zero value stands for none.
type Secret [secretLen]byte

// NewSecrets returns Secrets with a random key.
func NewSecrets() *Secrets {
	s := &Secrets{}
	_, _ = rand.Read(s.key[:]) // never fails
	return s
}

// Of returns the secret of the tickets for the lock with this holder key.
func (s *Secrets) Of(holder string) (secret Secret) {
	room := [512]byte{}
	sum := sha256.Sum256(append(append(room[:0], s.key[:]...), holder...))
	base64.RawURLEncoding.Encode(secret[:], sum[:secretLen*3/4])
	return secret
}

// IsProven reports whether a script that has the ticket's secret wrote the message.
func (m *Message) IsProven(secret Secret) bool {
	room := [512]byte{}
	sum := sha1.Sum(append(append(room[:0], m.text...), secret[:]...)) // as prove in publish.lua does
	var want [2 * sha1.Size]byte
	hex.Encode(want[:], sum[:])
	return subtle.ConstantTimeCompare(want[:], []byte(m.proof)) == 1
}
