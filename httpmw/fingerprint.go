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
	"net/textproto"
	"net/url"
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
		content, err := contentOf(r, body)
		return key.Fingerprint(append(parts, content...)...), err
	}
	copied := r.WithContext(r.Context())
	copied.Body = io.NopCloser(bytes.NewReader(body)) // the function may parse a form
	identity, err := m.identify(copied, body)
	return key.Fingerprint(append(parts, identity)...), err
}

var errBodyRead = errors.New("the body was read before Idempotent: mount it outside, put the body back, or use WithFingerprint")

// contentOf returns what a repetition of a request has in common with it: the body, or the parts of a form, which has a new
// boundary in each try. If other middleware or the scope has read the body, only the form is left that it has made of it.
func contentOf(r *http.Request, body []byte) ([][]byte, error) {
	if len(body) == 0 {
		switch files := r.MultipartForm; {
		case files != nil && len(files.Value)+len(files.File) > 0:
			return partsOfForm(files)
		case len(r.PostForm) > 0:
			return [][]byte{[]byte(r.PostForm.Encode()), []byte("form")}, nil
		case r.ContentLength > 0:
			return nil, errBodyRead
		}
	}
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && strings.HasPrefix(media, "multipart/") {
		if parts, err := partsOf(body, params["boundary"]); err == nil {
			return append(parts, []byte(media), []byte("multipart")), nil
		}
	}
	return [][]byte{body}, nil
}

// partsOfForm is partsOf for a form that was parsed before.
func partsOfForm(form *multipart.Form) ([][]byte, error) {
	parts := [][]byte{[]byte(url.Values(form.Value).Encode())}
	size := int64(len(parts[0]))
	for _, name := range slices.Sorted(maps.Keys(form.File)) {
		for _, header := range form.File[name] {
			if size += header.Size; size > largestBody {
				return nil, &refusedError{problemIdempotencyBody, &http.MaxBytesError{Limit: largestBody}}
			}
			content, err := readFile(header)
			if err != nil {
				return nil, err
			}
			parts = append(parts, []byte(headOf(header.Header)), content)
		}
	}
	return append(parts, []byte("files")), nil
}

func readFile(header *multipart.FileHeader) ([]byte, error) {
	file, err := header.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(file)
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
		parts = append(parts, []byte(headOf(part.Header)), content)
	}
}

// headOf returns the headers of a part, which include its name.
func headOf(header textproto.MIMEHeader) string {
	var head strings.Builder
	for _, name := range slices.Sorted(maps.Keys(header)) {
		fmt.Fprintf(&head, "%s: %q\n", name, header[name])
	}
	return head.String()
}
