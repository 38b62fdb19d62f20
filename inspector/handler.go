package inspector

import (
	"bytes"
	"context"
	"embed"
	"errors"
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

// Handler serves pages and JSON about the locks that insp sees, under whatever path it is mounted, with or without
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

// routes are what the last part of a path leads to.
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

// routeOf returns what a path leads to. Nobody says where the handler is mounted: only the end of the path counts.
func routeOf(urlPath string) string {
	_, last := path.Split(urlPath)
	return last
}

// ServeHTTP serves a page, an answer in JSON, or what pages need.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "same-origin") // not no-referrer, with which a browser sends no Origin either
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

// redirectToRoot adds the slash to the path where the handler is mounted, so that links lead below it.
func (h *handler) redirectToRoot(w http.ResponseWriter, r *http.Request) {
	seen := r.URL.Path
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil { // StripPrefix leaves this as it was
		seen = u.Path
	}
	to := "./" + url.PathEscape(path.Base(seen)) + "/"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", to) // http.Redirect would put r.URL.Path before it, which may lack its beginning
	w.WriteHeader(http.StatusFound)
}

// subject returns what a request is about: a page by its name.
func (h *handler) subject(page string, r *http.Request) (subject, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, queryError("the query cannot be read")
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
		return nil, queryError("the name of a process is shorter")
	case name == "":
		return &processPage{hub: h.hub}, nil
	}
	return &processPage{h.hub, name, h.hub.process(name)}, nil
}

// mostName is how many bytes the name of a process has at most: that of its host, which has 253, and two numbers.
const mostName = 512

// statusOf is the status and the title of the answer if there is no subject.
func statusOf(err error) (status int, title string) {
	if _, ok := errors.AsType[queryError](err); ok {
		return http.StatusBadRequest, "Bad request"
	}
	return http.StatusNotFound, "No such key"
}

// await waits until what is known of s is fresh. It waits for all that is read together.
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

// message is a page that says one thing.
func (h *handler) message(status int, title, text string) *page {
	return &page{Name: "message", Title: title, Prefix: h.hub.insp.Prefix(), Status: status, Body: text}
}

//go:embed pages assets
var files embed.FS

// templates are the pages, each with the layout around it.
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
		h.logger.Error("lockmw: inspector: a page cannot be shown", "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(p.Status)
	w.Write(b.Bytes())
}

// asset serves a file that pages need.
func asset(name string) func(*handler, http.ResponseWriter, *http.Request) {
	return func(_ *handler, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, files, name)
	}
}

// isForeign reports whether another site caused a request, unless somebody has followed a link. Browsers say so.
func isForeign(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") != "cross-site" {
		return false
	}
	to := r.Header.Get("Sec-Fetch-Dest")
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || to != "" && to != "document" // not into a frame
}
