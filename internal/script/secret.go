package script

import (
	"crypto/rand"
	"crypto/sha1" // the only hash that scripts of Redis have
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
)

// Secrets make the secrets of one engine, one for each lock. It goes to the server with the tickets for that lock, and is in no
// message: the script that grants the lock proves with it that the message of the grant is its own (rule 27 of
// docs/protocol.md). They are made of a key that never leaves the process. So the message of a grant can still be judged when its
// request is forgotten. Secrets are safe for concurrent use.
type Secrets struct {
	key [32]byte
}

// secretLen is the length of a Secret: 96 bits are beyond guessing.
const secretLen = 16

// A Secret is that of a process' tickets for one lock, as text. The zero value is none.
type Secret [secretLen]byte

// NewSecrets returns Secrets that nobody can guess.
func NewSecrets() *Secrets {
	s := &Secrets{}
	_, _ = rand.Read(s.key[:]) // never fails
	return s
}

// Of returns the secret of the tickets for the lock whose first key is holder.
func (s *Secrets) Of(holder string) (secret Secret) {
	room := [512]byte{}
	sum := sha256.Sum256(append(append(room[:0], s.key[:]...), holder...))
	base64.RawURLEncoding.Encode(secret[:], sum[:secretLen*3/4])
	return secret
}

// IsProven reports whether a script that knows the secret of the ticket has written the message of its grant.
func (m *Message) IsProven(secret Secret) bool {
	room := [512]byte{}
	sum := sha1.Sum(append(append(room[:0], m.text...), secret[:]...)) // as prove in publish.lua does
	var want [2 * sha1.Size]byte
	hex.Encode(want[:], sum[:])
	return subtle.ConstantTimeCompare(want[:], []byte(m.proof)) == 1
}
