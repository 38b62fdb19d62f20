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
	// ErrNoClaim: Claim found nothing in the request's context. The status is 401.
	ErrNoClaim = errors.New("httpmw: no identity in the request's context")
	// ErrWiring: URLParam or PathValue is used where the route does not have the parameter, so that
	// no request can have a key. The status is 500; the log names the parameter.
	ErrWiring = errors.New("httpmw: the route does not have the parameter")
)

// URLParam is the value of a parameter of the chi route, percent-decoded: /items/42 and
// /items/%34%32 are the same item. It exists only for middleware that runs after chi has found the
// route: under r.With, r.Group, or inside r.Route; elsewhere it is ErrWiring. URLParam panics if name
// is empty or has the braces, colon or slashes of a pattern.
//
// With chi's StripSlashes chi routes on the decoded path. A path whose parameters could be decoded ones
// or not is refused with lockmw.ErrInvalidKey.
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

// checkName panics unless name is that of a parameter.
func checkName(part, name string) {
	if name == "" {
		panic(fmt.Sprintf("httpmw: %s: the name is empty", part))
	}
	if strings.ContainsAny(name, "{}:/") {
		panic(fmt.Sprintf("httpmw: %s(%q): not a name: of {id:[0-9]+} it is id, without braces and what follows the colon", part, name))
	}
}

// decoded returns the value of a route parameter as the client meant it. chi takes parameters as they
// are from the path that it routes on. That is the escaped path, if the URL keeps one, unless a
// middleware such as StripSlashes has changed it to the decoded one. If a parameter were decoded twice,
// two items would share a lock; if it were not decoded, one item would have two.
func decoded(route *chi.Context, u *url.URL, value string) (string, error) {
	if !strings.Contains(value, "%") {
		return value, nil
	}
	if strings.Contains(u.Path, value) {
		switch plain, escaped := origin(route, u); {
		case plain == escaped:
			return "", invalid("a path parameter may be escaped or not")
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

// origin looks at the known pieces of the path that chi has routed on. It reports whether some of them
// occur only in the decoded path, and whether some occur only in the escaped path. A piece is what stands
// between two slashes: CleanPath moves slashes.
func origin(route *chi.Context, u *url.URL) (plain, escaped bool) {
	known := strings.Join(route.URLParams.Values, "/") + "/" + route.RoutePath
	for piece := range strings.SplitSeq(known, "/") {
		inPath, inRaw := strings.Contains(u.Path, piece), strings.Contains(u.RawPath, piece)
		plain = plain || inPath && !inRaw
		escaped = escaped || inRaw && !inPath
	}
	return plain, escaped
}

// PathValue is the value of a wildcard of the http.ServeMux pattern, decoded. It exists only for
// handlers that were mounted on a pattern with that wildcard; elsewhere it is ErrWiring. On the routes
// of chi it is the same as URLParam. PathValue panics if name is empty or has the braces, colon or
// slashes of a pattern.
func PathValue(name string) Part {
	checkName("PathValue", name)
	return func(r *http.Request) (string, error) {
		value := r.PathValue(name)
		if value == "" && !hasWildcard(r.Pattern, name) {
			return "", fmt.Errorf("%w: PathValue(%q) needs to be mounted on a pattern with {%s}", ErrWiring, name, name)
		}
		// chi sets path values too, without decoding them.
		if route := chi.RouteContext(r.Context()); route != nil && route.URLParam(name) == value {
			return decoded(route, r.URL, value)
		}
		return value, nil
	}
}

// hasWildcard reports whether a pattern contains {name}, {name...} or chi's {name:regexp}.
func hasWildcard(pattern, name string) bool {
	for _, end := range []string{"}", "...}", ":"} {
		if strings.Contains(pattern, "{"+name+end) {
			return true
		}
	}
	return false
}

// Header is the value of a request header, the first if there are several. Without it the request
// has no key. Anybody can send any header: use it for what the client may choose, such as an
// idempotency key, not for who the client is. Header panics if name cannot be that of a header, or is
// Host, which net/http moves to r.Host: write a Part that returns r.Host.
func Header(name string) Part {
	if !isToken(name) {
		panic(fmt.Sprintf("httpmw: Header(%q): not the name of a header", name))
	}
	if http.CanonicalHeaderKey(name) == "Host" {
		panic(fmt.Sprintf("httpmw: Header(%q): net/http moves it to r.Host: use a function that returns that", name))
	}
	return func(r *http.Request) (string, error) {
		value := r.Header.Get(name)
		if value == "" {
			return "", invalid("the request has no header %s", name)
		}
		return value, nil
	}
}

// Claim is an identity that earlier middleware has put into the request's context, such as the user
// that auth found. If from reports false, or nothing, the request is refused with ErrNoClaim: status
// 401. Claim panics if from is nil.
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
