package inspector

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// A vault signs and encrypts with keys derived from one secret.
type vault struct {
	signing, naming []byte
	seal            cipher.AEAD
}

// newVault returns a vault with a secret; nil means a random secret.
func newVault(secret []byte) *vault {
	if secret == nil {
		secret = make([]byte, 32)
		rand.Read(secret)
	}
	derive := func(purpose string) []byte { return mac(secret, "lockmw inspector: "+purpose) }
	block, err := aes.NewCipher(derive("keys"))
	if err != nil {
		panic(err) // cannot happen: the key has 32 bytes
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return &vault{signing: derive("confirmations"), naming: derive("nonces"), seal: seal}
}

func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

// sign returns a signature over parts.
func (v *vault) sign(parts ...string) string {
	return base64.RawURLEncoding.EncodeToString(mac(v.signing, parts...))
}

// signed reports whether signature is the signature of parts.
func (v *vault) signed(signature string, parts ...string) bool {
	return hmac.Equal([]byte(signature), []byte(v.sign(parts...)))
}

// padding hides the length of a sealed key: plaintexts are padded to a multiple of it, in bytes.
const padding = 32

// sealKey encrypts a key. The result is deterministic, so that links are stable. The nonce is derived from the key, so that no two keys
// share one.
func (v *vault) sealKey(key string) string {
	plain := binary.BigEndian.AppendUint16(nil, uint16(len(key)))
	plain = append(plain, key...)
	plain = append(plain, make([]byte, (padding-len(plain)%padding)%padding)...)
	nonce := mac(v.naming, key)[:v.seal.NonceSize()]
	return base64.RawURLEncoding.EncodeToString(v.seal.Seal(nonce, nonce, plain, nil))
}

// openKey is the reverse of sealKey.
func (v *vault) openKey(sealed string) (key string, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	size := v.seal.NonceSize()
	if err != nil || len(b) < size {
		return "", false
	}
	plain, err := v.seal.Open(nil, b[:size], b[size:], nil)
	if err != nil || len(plain) < 2 {
		return "", false
	}
	n := int(binary.BigEndian.Uint16(plain))
	if n > len(plain)-2 {
		return "", false
	}
	return string(plain[2 : 2+n]), true
}
