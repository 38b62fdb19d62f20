package inspector

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

type handler struct {
	*config
	hub   *hub
	vault *vault
	same  *http.CrossOriginProtection

	streams, requests bound
}

// Handler returns a handler that serves pages and JSON about the locks of insp. Mount it under any path, with or without
// http.StripPrefix. It has no authentication: put your own around it. It needs no Close. It panics if insp or an option is
// nil.
func Handler(insp *lockmw.Inspector, opts ...Option) http.Handler {
	option.NotNil(insp, "inspector: Handler: the Inspector is nil")
	c := newConfig(opts)
	return &handler{
		config: c, hub: newHub(insp, c.shown), vault: newVault(c.secret), same: http.NewCrossOriginProtection(),
		streams: make(bound, mostStreams), requests: make(bound, mostRequests),
	}
}

// routes maps the last part of a path to its handler.
var routes = map[string]func(*handler, http.ResponseWriter, *http.Request){
	"":                bounded(requests, (*handler).servePage),
	"key":             bounded(requests, (*handler).servePage),
	"process":         bounded(requests, (*handler).servePage),
	"redis":           bounded(requests, (*handler).servePage),
	"locks.json":      bounded(requests, (*handler).serveJSON),
	"key.json":        bounded(requests, (*handler).serveJSON),
	"process.json":    bounded(requests, (*handler).serveJSON),
	"trends.json":     bounded(requests, (*handler).serveJSON),
	"redis.json":      bounded(requests, (*handler).serveJSON),
	"live":            bounded(streams, (*handler).serveLive),
	"force-unlock":    (*handler).serveForceUnlock,
	"release-process": bounded(requests, (*handler).serveReleaseProcess),
	"style.css":       asset("assets/style.css"),
	"live.js":         asset("assets/live.js"),
	"icon.svg":        asset("assets/icon.svg"),
}

// routeOf returns the route of a path: its last part, because the handler does not know where it is mounted.
func routeOf(urlPath string) string {
	_, last := path.Split(urlPath)
	return last
}

// ServeHTTP serves a page, JSON, or an asset.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "same-origin") // no-referrer would also remove Origin, which the check of the site needs
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	name := routeOf(r.URL.Path)
	serve, ok := routes[name]
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case !reading && (r.Method != http.MethodPost || name != "force-unlock" && name != "release-process"):
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	case reading && isForeign(r):
		http.Error(w, "the request came from another site", http.StatusForbidden)
	case ok && name == "" && r.URL.Path == "", !ok && !strings.Contains(name, "."):
		h.redirectToRoot(w, r)
	case !ok:
		http.NotFound(w, r)
	default:
		serve(h, w, r)
	}
}

// redirectToRoot redirects to the mount path with a slash at its end, so that relative links work.
func (h *handler) redirectToRoot(w http.ResponseWriter, r *http.Request) {
	seen := r.URL.Path
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil { // StripPrefix does not change RequestURI
		seen = u.Path
	}
	to := "./" + url.PathEscape(path.Base(seen)) + "/"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", to) // http.Redirect would prepend r.URL.Path, which StripPrefix may have shortened
	w.WriteHeader(http.StatusFound)
}

// subject returns the subject of the page with this name.
func (h *handler) subject(page string, r *http.Request) (subject, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, queryError("the query cannot be parsed")
	}
	if routeOf(r.URL.Path) == "live" { // the first is the page's name
		values["page"] = values["page"][min(1, len(values["page"])):]
	}
	switch page {
	case "key":
		key, err := h.addressed(values)
		if err != nil {
			return nil, err
		}
		return &keyPage{h.hub, key, h.hub.key(key), h.address(key).Encode()}, nil
	case "process":
		return h.process(values)
	case "redis":
		return &redisPage{h.hub}, nil
	}
	q, err := parseQuery(values)
	return &overview{h.hub, q}, err
}

// process returns the page of the process that a query names.
func (h *handler) process(values url.Values) (subject, error) {
	name := values.Get("process")
	switch {
	case len(values["process"]) > 1:
		return nil, queryError("process is given more than once")
	case len(name) > mostName:
		return nil, queryError(fmt.Sprintf("the name of a process has at most %d bytes", mostName))
	case name == "":
		return &processPage{hub: h.hub}, nil
	}
	return &processPage{h.hub, name, h.hub.process(name)}, nil
}

// mostName is the maximum length of a process name in bytes: a host name has at most 253, and two numbers follow.
const mostName = 512

// statusOf returns the status and title of the answer for an error of subject.
func statusOf(err error) (status int, title string) {
	if _, ok := errors.AsType[queryError](err); ok {
		return http.StatusBadRequest, "Bad request"
	}
	return http.StatusNotFound, "No such key"
}

// await waits for fresh data for s, including all feeds that are read together.
func await(ctx context.Context, s subject) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.await(ctx, time.Now().Add(glance))
}

func (h *handler) servePage(w http.ResponseWriter, r *http.Request) {
	s, err := h.subject(routeOf(r.URL.Path), r)
	if err != nil {
		status, title := statusOf(err)
		h.write(w, h.message(status, title, err.Error()))
		return
	}
	await(r.Context(), s)
	p := s.show(h.view(r))
	if p == nil {
		h.refuse(w, r)
		return
	}
	h.write(w, p)
}

// message returns a page with one text.
func (h *handler) message(status int, title, text string) *page {
	return &page{answer: answer{Prefix: h.hub.insp.Prefix()}, Name: "message", Title: title, Status: status, Body: text}
}

//go:embed pages assets
var files embed.FS

// templates has the template of each page, with the layout around it.
var templates = func() map[string]*template.Template {
	functions := template.FuncMap{"pieces": pieces, "plain": plain}
	layout := template.Must(template.New("").Funcs(functions).ParseFS(files, "pages/layout.html", "pages/parts.html"))
	all := make(map[string]*template.Template)
	for _, name := range []string{"overview", "key", "process", "redis", "force", "release", "message"} {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(files, "pages/"+name+".html"))
	}
	return all
}()

// write sends a page.
func (h *handler) write(w http.ResponseWriter, p *page) {
	var b bytes.Buffer
	if err := templates[p.Name].ExecuteTemplate(&b, "layout", p); err != nil {
		h.logger.Error("lockmw: inspector: rendering a page failed", "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(p.Status)
	w.Write(b.Bytes())
}

// asset serves an embedded file.
func asset(name string) func(*handler, http.ResponseWriter, *http.Request) {
	return func(_ *handler, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, files, name)
	}
}

// isForeign reports whether another site caused a request, other than a link that the user followed. Browsers send this in headers.
func isForeign(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") != "cross-site" {
		return false
	}
	to := r.Header.Get("Sec-Fetch-Dest")
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || to != "" && to != "document" // a frame is refused
}
