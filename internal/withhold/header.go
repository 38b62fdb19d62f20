package withhold

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// described are the headers that belong to one response and to no other: they describe its content, have a proxy send
// something else (X-Accel-Redirect, X-Sendfile), or say how long a cache may keep it. Caches prefer most of the latter to
// Cache-Control: no-store.
var described = []string{
	"Accept-Ranges", "Age", "Content-Digest", "Content-Disposition", "Content-Encoding", "Content-Language",
	"Content-Length", "Content-Location", "Content-Range", "Digest", "Edge-Control", "Etag", "Expires", "Last-Modified",
	"Location", "Refresh", "Repr-Digest", "Retry-After", "Surrogate-Control", "Trailer", "X-Accel-Expires",
	"X-Accel-Redirect", "X-Lighttpd-Send-File", "X-Sendfile",
}

// Clear prepares h for an answer that is sent instead of the intended response. It removes what describes that response,
// its trailers too, and what lets a cache store it, which includes the targeted fields of RFC 9213. It forbids caches to
// store the answer.
func Clear(h http.Header) {
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
		name = http.CanonicalHeaderKey(name) // net/http sends names as they are in the map
		return slices.Contains(described, name) || strings.HasSuffix(name, "Cache-Control")
	})
	h.Set("Cache-Control", "no-store")
}
