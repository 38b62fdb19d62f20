package httpmw

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// largestBody is the longest body of a request that Idempotent handles.
const largestBody = 1 << 20

// wholeBody reads the body of a request, and returns it also for the handler.
func wholeBody(w http.ResponseWriter, r *http.Request, of io.ReadCloser, began time.Time) (text []byte, forHandler io.ReadCloser, err error) {
	b := newBody(of, w, began)
	if b == nil {
		return nil, of, nil
	}
	text, err = b.whole(r.Context(), r.ContentLength, largestBody)
	switch {
	case err == nil, errors.Is(err, lockmw.ErrNotRequested):
	case errors.As(err, new(*http.MaxBytesError)):
		err = &refusedError{problemIdempotencyBody, err}
	default:
		err = &refusedError{problemUnreadable, err}
	}
	return text, b, err
}

// fingerprint returns the fingerprint of a request with this body.
func (m *idempotent) fingerprint(key idempotency.Key, r *http.Request, body []byte) (idempotency.Fingerprint, error) {
	parts := [][]byte{[]byte(r.Method), []byte(r.URL.EscapedPath())}
	if m.identify == nil {
		parts = append(parts, []byte(r.URL.RawQuery))
		return key.Fingerprint(append(parts, contentOf(r.Header.Get("Content-Type"), body)...)...), nil
	}
	copied := r.WithContext(r.Context())
	copied.Body = io.NopCloser(bytes.NewReader(body)) // the function may parse a form
	identity, err := m.identify(copied, body)
	return key.Fingerprint(append(parts, identity)...), err
}

// contentOf returns what a repetition of a request has in common with it: the body, or the parts of a form, which has a new
// boundary in each try.
func contentOf(contentType string, body []byte) [][]byte {
	media, params, err := mime.ParseMediaType(contentType)
	if err == nil && strings.HasPrefix(media, "multipart/") {
		if parts, err := partsOf(body, params["boundary"]); err == nil {
			return append(parts, []byte(media), []byte("multipart"))
		}
	}
	return [][]byte{body}
}

func partsOf(body []byte, boundary string) (parts [][]byte, err error) {
	if boundary == "" {
		return nil, errors.New("no boundary")
	}
	in := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := in.NextRawPart()
		if err == io.EOF { //nolint:errorlint // a Reader returns it unwrapped
			return parts, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		var head strings.Builder
		for _, name := range slices.Sorted(maps.Keys(part.Header)) {
			fmt.Fprintf(&head, "%s: %q\n", name, part.Header[name])
		}
		parts = append(parts, []byte(head.String()), content)
	}
}
