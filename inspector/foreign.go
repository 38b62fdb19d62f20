package inspector

import "net/http"

// isForeign reports whether another site caused a request, unless somebody has followed a link. Browsers say so.
func isForeign(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") != "cross-site" {
		return false
	}
	to := r.Header.Get("Sec-Fetch-Dest")
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || to != "" && to != "document" // not into a frame
}
