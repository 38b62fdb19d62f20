package tracing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// RedactKey is a key redactor that shows "REDACTED" in place of every key.
func RedactKey(string) string { return "REDACTED" }

// HashKey returns a key redactor that shows the first 128 bits of the key's HMAC-SHA256 as 32 hex
// digits. With the secret one can search for a key; without it nobody can guess keys from the digits. Use
// the same secret in all processes. HashKey panics if the secret is empty.
func HashKey(secret []byte) func(key string) string {
	if len(secret) == 0 {
		panic("tracing: HashKey: the secret is empty")
	}
	secret = slices.Clone(secret)
	return func(key string) string {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(key))
		return hex.EncodeToString(mac.Sum(nil)[:16])
	}
}
