package idempotency

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// An Answer is what a run has answered, as it is recorded.
type Answer struct {
	Status int                 // the HTTP status; 0 if the answer is not of HTTP
	Header map[string][]string // the HTTP headers that are kept
	Body   []byte
	// NoBody reports that the body was not kept, because it was too large or was streamed.
	NoBody bool
}

// A Sealer encrypts answers before they are stored: see WithSealer.
type Sealer struct {
	Seal func(plain []byte) ([]byte, error)
	Open func(sealed []byte) ([]byte, error)
}

// The first byte of a stored answer says how it is encoded.
const (
	answerVersion = 1 << iota
	answerDeflated
	answerSealed
)

// deflateAbove is the size in bytes above which an answer is deflated.
const deflateAbove = 1024

// encode returns the answer as it is stored: a byte of flags, and then a line of JSON and the body, which may be deflated and
// sealed together.
func (a *Answer) encode(s *Sealer) ([]byte, error) {
	head, err := json.Marshal(answerHead{a.Status, a.Header, a.NoBody})
	if err != nil {
		return nil, err
	}
	flags := byte(answerVersion)
	text := append(append(head, '\n'), a.Body...)
	if len(text) > deflateAbove {
		if small := deflate(text); len(small) < len(text) {
			text, flags = small, flags|answerDeflated
		}
	}
	if s != nil {
		if text, err = s.Seal(text); err != nil {
			return nil, fmt.Errorf("the answer could not be sealed: %w", err)
		}
		flags |= answerSealed
	}
	return append([]byte{flags}, text...), nil
}

type answerHead struct {
	Status int                 `json:"status,omitempty"`
	Header map[string][]string `json:"header,omitempty"`
	NoBody bool                `json:"no_body,omitempty"`
}

func deflate(text []byte) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.DefaultCompression) // the level is valid
	_, _ = w.Write(text)                                  // a buffer returns no error
	_ = w.Close()
	return b.Bytes()
}

var errStrangeAnswer = errors.New("the recorded answer cannot be read")

// maxStored bounds what a stored answer may inflate to.
const maxStored = 256 << 20

// decodeAnswer is the reverse of encode.
func decodeAnswer(stored []byte, s *Sealer) (a Answer, err error) {
	if len(stored) == 0 || stored[0]&answerVersion == 0 {
		return a, errStrangeAnswer
	}
	flags, text := stored[0], stored[1:]
	switch sealed := flags&answerSealed != 0; {
	case sealed && s == nil:
		return a, fmt.Errorf("%w: it is sealed, and the Runner has no WithSealer", errStrangeAnswer)
	case sealed:
		if text, err = s.Open(text); err != nil {
			return a, fmt.Errorf("%w: %w", errStrangeAnswer, err)
		}
	}
	if flags&answerDeflated != 0 {
		if text, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(text)), maxStored)); err != nil {
			return a, fmt.Errorf("%w: %w", errStrangeAnswer, err)
		}
	}
	line, body, found := bytes.Cut(text, []byte{'\n'})
	var head answerHead
	if !found || json.Unmarshal(line, &head) != nil {
		return a, errStrangeAnswer
	}
	return Answer{Status: head.Status, Header: head.Header, Body: body, NoBody: head.NoBody}, nil
}
