package httpmw

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
)

var (
	// ErrNoClaim means that Claim found no identity in the request's context. The status is 401.
	ErrNoClaim = errors.New("httpmw: no identity in the request's context")
	// ErrWiring means that URLParam or PathValue names a parameter that the route does not have, so that no request can have a
	// key. The status is 500; the log names the parameter.
	ErrWiring = errors.New("httpmw: the route does not have the parameter")
)

// URLParam uses a parameter of the chi route as a part of the key. The value is percent-decoded: /items/42 and /items/%34%32 are
// the same item. The parameter exists only after chi has matched the route: mount the lock with r.With, with r.Group or inside
// r.Route. Elsewhere the part fails with ErrWiring. URLParam panics if name is empty or contains the braces, colon or slashes of
// a pattern.
//
// With chi's StripSlashes, chi routes on the decoded path. A path whose parameters may or may not be decoded already is refused
// with lockmw.ErrInvalidKey.
func URLParam(name string) Part {
	checkName("URLParam", name)
	return func(r *http.Request) (string, error) {
		route := chi.RouteContext(r.Context())
		if route == nil || !slices.Contains(route.URLParams.Keys, name) {
			return "", fmt.Errorf("%w: URLParam(%q) needs r.With or r.Route on a chi route with {%s}", ErrWiring, name, name)
		}
		return decoded(route, r.URL, route.URLParam(name))
	}
}

// checkName panics unless name can be the name of a parameter.
func checkName(part, name string) {
	if name == "" {
		panic(fmt.Sprintf("httpmw: %s: the name is empty", part))
	}
	if strings.ContainsAny(name, "{}:/") {
		panic(fmt.Sprintf("httpmw: %s(%q): not a name: pass the name alone, such as id for {id:[0-9]+}", part, name))
	}
}

// decoded returns the value of a route parameter, decoded once. chi takes parameters unchanged from the path that it routes on:
// the escaped path, if the URL keeps one, unless a middleware such as StripSlashes has replaced it by the decoded path. If a
// parameter were decoded twice, two items would share a lock; if it were not decoded, one item would have two locks.
func decoded(route *chi.Context, u *url.URL, value string) (string, error) {
	if !strings.Contains(value, "%") {
		return value, nil
	}
	if strings.Contains(u.Path, value) {
		switch plain, escaped := origin(route, u); {
		case plain == escaped:
			return "", invalid("a path parameter may or may not be escaped")
		case plain:
			return value, nil
		}
	}
	unescaped, err := url.PathUnescape(value)
	if err != nil {
		return "", invalid("a path parameter is not properly escaped")
	}
	return unescaped, nil
}

// origin examines the known segments of the path that chi has routed on. It reports whether some of them occur only in the
// decoded path, and whether some occur only in the escaped path. It compares single segments because CleanPath moves slashes.
func origin(route *chi.Context, u *url.URL) (plain, escaped bool) {
	known := strings.Join(route.URLParams.Values, "/") + "/" + route.RoutePath
	for segment := range strings.SplitSeq(known, "/") {
		inPath, inRaw := strings.Contains(u.Path, segment), strings.Contains(u.RawPath, segment)
		plain = plain || inPath && !inRaw
		escaped = escaped || inRaw && !inPath
	}
	return plain, escaped
}

// PathValue uses a wildcard of the http.ServeMux pattern as a part of the key. The value is decoded. It exists only for handlers
// on a pattern with that wildcard; elsewhere the part fails with ErrWiring. On a chi route it is the same as URLParam. PathValue
// panics if name is empty or contains the braces, colon or slashes of a pattern.
func PathValue(name string) Part {
	checkName("PathValue", name)
	return func(r *http.Request) (string, error) {
		value := r.PathValue(name)
		if value == "" && !hasWildcard(r.Pattern, name) {
			return "", fmt.Errorf("%w: PathValue(%q) needs to be mounted on a pattern with {%s}", ErrWiring, name, name)
		}
		// chi also sets path values, without decoding them.
		if route := chi.RouteContext(r.Context()); route != nil && route.URLParam(name) == value {
			return decoded(route, r.URL, value)
		}
		return value, nil
	}
}

// hasWildcard reports whether a pattern contains {name}, {name...} or chi's {name:regexp}.
func hasWildcard(pattern, name string) bool {
	return slices.ContainsFunc([]string{"}", "...}", ":"}, func(end string) bool { return strings.Contains(pattern, "{"+name+end) })
}

// Header uses a request header as a part of the key, the first value if there are several. A request without it is refused with
// status 400. The client can send any value, so use Header for what the client may choose, such as an idempotency key, not for an
// identity. Header panics if name is not a valid header name. It also panics for Host, which net/http moves to r.Host: write a
// Part that returns r.Host.
func Header(name string) Part {
	if !isToken(name) {
		panic(fmt.Sprintf("httpmw: Header(%q): not a valid header name", name))
	}
	if http.CanonicalHeaderKey(name) == "Host" {
		panic(fmt.Sprintf("httpmw: Header(%q): net/http moves it to r.Host: use a Part that returns r.Host", name))
	}
	return func(r *http.Request) (string, error) {
		value := r.Header.Get(name)
		if value == "" {
			return "", invalid("the request has no header %s", name)
		}
		return value, nil
	}
}

// Claim uses an identity that earlier middleware has put into the request's context, such as the authenticated user, as a part of
// the key. If from returns false or an empty string, the request is refused with ErrNoClaim and status 401. Claim panics if from
// is nil.
func Claim(from func(context.Context) (string, bool)) Part {
	if from == nil {
		panic("httpmw: Claim: the function is nil")
	}
	return func(r *http.Request) (string, error) {
		value, ok := from(r.Context())
		if !ok || value == "" {
			return "", ErrNoClaim
		}
		return value, nil
	}
}
