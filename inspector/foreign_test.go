package inspector_test

import (
	"net/http"
	"testing"
)

func TestRequestsThatAnotherSiteCausedAreRefused(t *testing.T) {
	d := newDesk(t)
	for _, path := range []string{"/", "/key?key=user:42", "/redis", "/locks.json", "/key.json?key=user:42", "/redis.json", "/style.css", "/live?page=nothing"} {
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"},
			{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"},
			{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
		} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				if w := d.do(method, path, header...); w.Code != http.StatusForbidden {
					t.Errorf("%s %s with %q: %d", method, path, header, w.Code)
				}
			}
		}
	}
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, // a link in a chat
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"},
		{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "none"}, nil,
	} {
		if w := d.do(http.MethodGet, "/locks.json", header...); w.Code != http.StatusOK {
			t.Errorf("with %q: %d", header, w.Code)
		}
	}
}
