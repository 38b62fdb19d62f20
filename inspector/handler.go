package inspector

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

type handler struct {
	*config
	hub    *hub
	vault  *vault
	same   *http.CrossOriginProtection
	routes map[string]http.HandlerFunc // by the last part of the path
}

// Handler returns a handler that serves pages and JSON about the locks of insp. Mount it under any path, with or without
// http.StripPrefix. It has no authentication: put your own around it. It needs no Close. It panics if insp or an option is
// nil.
func Handler(insp *lockmw.Inspector, opts ...Option) http.Handler {
	option.NotNil(insp, "inspector: Handler: the Inspector is nil")
	c := newConfig(opts)
	h := &handler{config: c, hub: newHub(insp, c.shown), vault: newVault(c.secret), same: http.NewCrossOriginProtection()}
	requests := make(bound, mostRequests)
	data := h.bounded(requests, h.serveData)
	h.routes = map[string]http.HandlerFunc{
		"": data, "key": data, "process": data, "redis": data,
		"locks.json": data, "key.json": data, "process.json": data, "trends.json": data, "redis.json": data,
		"live":            h.bounded(make(bound, mostStreams), h.serveLive),
		"force-unlock":    h.bounded(requests, h.serveForceUnlock),
		"release-process": h.bounded(requests, h.serveReleaseProcess),
		"style.css":       asset("assets/style.css"),
		"live.js":         asset("assets/live.js"),
		"icon.svg":        asset("assets/icon.svg"),
	}
	return h
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
	serve, ok := h.routes[name]
	reading := []string{http.MethodGet, http.MethodHead}
	allowed := reading
	if name == "force-unlock" || name == "release-process" {
		allowed = append(allowed, http.MethodPost)
	}
	switch {
	case !slices.Contains(allowed, r.Method):
		header.Set("Allow", strings.Join(allowed, ", "))
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	case slices.Contains(reading, r.Method) && isForeign(r):
		http.Error(w, "the request came from another site", http.StatusForbidden)
	case ok && name == "" && r.URL.Path == "", !ok && !strings.Contains(name, "."):
		h.redirectToRoot(w, r)
	case !ok:
		http.NotFound(w, r)
	default:
		serve(w, r)
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
		return &keyPage{h.hub, key, h.hub.keys.of(key), h.address(key).Encode()}, nil
	case "process":
		return h.process(values)
	case "redis":
		return &redisPage{h.hub}, nil
	}
	q, err := parseQuery(values)
	return &overview{h.hub, q}, err
}

// process returns the page of the process that a query names.
func (h *handler) process(values url.Values) (*processPage, error) {
	name := values.Get("process")
	switch {
	case len(values["process"]) > 1:
		return nil, queryError("process is given more than once")
	case len(name) > mostName:
		return nil, queryError(fmt.Sprintf("the name of a process has at most %d bytes", mostName))
	case name == "":
		return &processPage{hub: h.hub}, nil
	}
	return &processPage{hub: h.hub, name: name, feed: h.hub.processes.of(name)}, nil
}

// mostName is the maximum length of a process name in bytes: a host name has at most 253, and two numbers follow.
const mostName = 512

// await waits for fresh data for s, including all feeds that are read together.
func await(ctx context.Context, s subject) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.await(ctx, time.Now().Add(glance))
}

// serveData serves a page, or its data in JSON.
func (h *handler) serveData(w http.ResponseWriter, r *http.Request) {
	name, isJSON := strings.CutSuffix(routeOf(r.URL.Path), ".json")
	s, err := h.subject(name, r)
	if err != nil {
		h.reject(w, r, err)
		return
	}
	await(r.Context(), s)
	v := h.view(r)
	if isJSON {
		v.keyPage = "key.json"
	}
	p := s.show(v)
	switch {
	case p == nil:
		h.refuse(w, r)
	case !isJSON:
		h.write(w, p)
	case name == "trends":
		b := p.Body.(*overviewBody)
		h.writeJSON(w, p.Status, trendsAnswer{b.answer, b.Trends})
	default:
		h.writeJSON(w, p.Status, p.Body)
	}
}

// reject answers a request with an error of subject.
func (h *handler) reject(w http.ResponseWriter, r *http.Request, err error) {
	if _, ok := errors.AsType[queryError](err); ok {
		h.fail(w, r, http.StatusBadRequest, "bad_request", "Bad request", err.Error())
		return
	}
	h.fail(w, r, http.StatusNotFound, "lock_invalid_key", "No such key", err.Error())
}

// fail answers a request with an error, in the form of its route.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, status int, kind, title, text string) {
	switch name := routeOf(r.URL.Path); {
	case name == "live":
		http.Error(w, text, status)
	case strings.HasSuffix(name, ".json"):
		h.writeJSON(w, status, answer{Prefix: h.hub.insp.Prefix(), Error: &problem{Type: kind, Message: text}})
	default:
		h.writeMessage(w, status, title, text)
	}
}

// writeMessage sends a page with one text.
func (h *handler) writeMessage(w http.ResponseWriter, status int, title, text string) {
	h.write(w, &page{answer: answer{Prefix: h.hub.insp.Prefix()}, Name: "message", Title: title, Status: status, Body: text})
}

//go:embed pages assets
var files embed.FS

// templates has the template of each page, with the layout around it.
var templates = func() map[string]*template.Template {
	functions := template.FuncMap{"pieces": pieces, "plain": plain, "id": id, "processHref": processHref}
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
	err := templates[p.Name].ExecuteTemplate(&b, "layout", p)
	h.send(w, p.Status, "text/html; charset=utf-8", &b, err)
}

func (h *handler) writeJSON(w http.ResponseWriter, status int, body any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	err := e.Encode(body)
	h.send(w, status, "application/json", &b, err)
}

// send sends a body, or an error if it could not be made. A client that does not read must not occupy one of mostRequests.
func (h *handler) send(w http.ResponseWriter, status int, kind string, body *bytes.Buffer, err error) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin)) // not every writer supports it
	if err != nil {
		h.logger.Error("lockmw: inspector: making an answer failed", "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // it fails if the client has closed the connection
}

// asset serves an embedded file.
func asset(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
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
