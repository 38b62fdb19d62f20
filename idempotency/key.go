package idempotency

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/lockmw/go/lockmw"
)

// A Key names one piece of work.
type Key struct {
	// Scope says whose key it is, such as the ID of the user or tenant that the server has authenticated. Two callers that choose
	// the same ID have different keys if their scopes differ. It must not be empty.
	Scope string
	// ID is chosen by the caller, such as the value of an Idempotency-Key header or the ID of a webhook's event. It must have from
	// 1 to 255 bytes.
	ID string
}

// MaxID is the greatest length of Key.ID in bytes.
const MaxID = 255

func (k Key) check() error {
	switch {
	case k.Scope == "":
		return fmt.Errorf("%w: the key has no scope, so all callers would share their keys", lockmw.ErrInvalidKey)
	case k.ID == "" || len(k.ID) > MaxID:
		return fmt.Errorf("%w: the ID of the key has %d bytes, must be from 1 to %d", lockmw.ErrInvalidKey, len(k.ID), MaxID)
	}
	return nil
}

// LockKey returns the key of the lock under which the work runs: "idem:" and a hash of the scope and the ID.
func (k Key) LockKey() string {
	h := sha256.New()
	for _, part := range []string{k.Scope, k.ID} {
		writePart(h.Write, []byte(part))
	}
	return "idem:" + hex.EncodeToString(h.Sum(nil))
}

// writePart writes a part and its length, so that no two lists of parts look the same.
func writePart(write func([]byte) (int, error), part []byte) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(part)))
	_, _ = write(length[:]) // a hash returns no error
	_, _ = write(part)
}

// A Fingerprint identifies the request of a key, so that a key is not used for two different requests.
type Fingerprint [sha256.Size]byte

// Fingerprint returns the fingerprint of a request that consists of the given parts: HMAC-SHA-256 over all of them, keyed by the
// key's ID. So someone who reads a record cannot guess a request without the key.
func (k Key) Fingerprint(parts ...[]byte) (f Fingerprint) {
	h := hmac.New(sha256.New, []byte(k.ID))
	for _, part := range parts {
		writePart(h.Write, part)
	}
	h.Sum(f[:0])
	return f
}

// String returns the fingerprint in hex digits.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }
