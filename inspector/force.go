package inspector

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
)

const (
	cookieName = "lockmw_inspector"
	// confirmWithin is the time in which an operator must confirm.
	confirmWithin = 10 * time.Minute
)

// A hold identifies exactly the hold that the operator saw.
type hold struct {
	key, owner, token string
}

type forceBody struct {
	Lock    *lock
	Holder  *holder    // nil: the hold has ended
	Fields  url.Values // of the form; nil: no form
	Back    string     // to the page of the key
	Done    bool
	Problem *problem
	Lost    *problem // why the release could not be recorded in the history; nil: it is recorded

	found *lockmw.Holder // Holder as it was read
}

// serveForceUnlock shows a hold and asks for confirmation, or releases the hold after confirmation.
func (h *handler) serveForceUnlock(w http.ResponseWriter, r *http.Request) {
	v := h.view(r)
	values, ok := h.instruction(w, r, v)
	if !ok {
		return
	}
	key, err := h.addressed(values)
	if err != nil {
		h.reject(w, r, err)
		return
	}
	if r.Method == http.MethodPost && !h.confirmed(w, r) {
		return
	}
	target := hold{key, values.Get("owner"), values.Get("token")}
	p, b := h.look(r.Context(), v, target)
	switch {
	case b.found == nil:
	case r.Method == http.MethodPost:
		p = h.forceUnlock(r, v, target, p, b)
	default:
		b.Fields = h.form(w, r, values)
	}
	h.write(w, p)
}

// instruction returns the parameters of a request to release by force, or of its confirmation. It answers an unauthorized or invalid
// request itself and reports false.
func (h *handler) instruction(w http.ResponseWriter, r *http.Request, v *view) (values url.Values, ok bool) {
	if !v.mayForce {
		h.writeMessage(w, http.StatusForbidden, "Not allowed", "You may view locks here, but not release them.")
		return nil, false
	}
	if r.Method != http.MethodPost {
		return r.URL.Query(), true
	}
	// The check reads Sec-Fetch-Site, or Origin from browsers that do not send Sec-Fetch-Site.
	if err := h.same.Check(r); err != nil {
		h.writeMessage(w, http.StatusForbidden, "Not from this page", "The request came from another site. Nothing was released.")
		return nil, false
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<14)
	if err := r.ParseForm(); err != nil {
		h.writeMessage(w, http.StatusBadRequest, "Bad request", "The form cannot be read. Nothing was released.")
		return nil, false
	}
	// The target is one encoded field, because browsers change line ends and bytes that are not UTF-8.
	values, _ = url.ParseQuery(r.PostForm.Get("target")) // an invalid part is missing, so the hold is not found
	return values, true
}

// form returns the fields of a form that confirms target at the route of r.
func (h *handler) form(w http.ResponseWriter, r *http.Request, target url.Values) url.Values {
	nonce, text := h.nonce(w, r), target.Encode()
	until := strconv.FormatInt(time.Now().Add(confirmWithin).Unix(), 10)
	return url.Values{
		"target":       {text},
		"until":        {until},
		"confirmation": {h.vault.sign(nonce, until, routeOf(r.URL.Path), text)},
	}
}

// look returns the page with the current state of the key, and with the target's holder if it still holds the lock.
func (h *handler) look(ctx context.Context, v *view, target hold) (*page, *forceBody) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	seen, err := h.hub.readKey(ctx, target.key)
	p := &page{answer: answer{Prefix: h.hub.insp.Prefix()}, Name: "force", Title: v.shown(target.key), Status: http.StatusOK}
	b := &forceBody{Lock: v.lock(&seen.Status, cmp.Or(err, seen.wrong), time.Now(), true), Back: v.href(target.key)}
	p.Body = b
	if err != nil {
		p.Status, p.Notice = http.StatusServiceUnavailable, &notice{true, "Redis could not be read.", v.problemOf(err)}
		return p, b
	}
	for i := range seen.Holders {
		if hd := &seen.Holders[i]; hd.Owner == target.owner && strconv.FormatInt(hd.Token, 10) == target.token {
			b.Holder, b.found = &b.Lock.Holders[i], hd
			return p, b
		}
	}
	p.Status = http.StatusConflict
	return p, b
}

// nonce returns the nonce of the browser's cookie, and sets a cookie if there is none. Without a Path attribute, the browser limits the
// cookie to the path where the handler is mounted.
func (h *handler) nonce(w http.ResponseWriter, r *http.Request) string {
	if c, err := r.Cookie(cookieName); err == nil && c.Value != "" {
		return c.Value
	}
	nonce := rand.Text()            // 128 bits
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure over TLS; behind a proxy that ends TLS, the cookie must do without
		Name: cookieName, Value: nonce, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
	return nonce
}

// confirmed reports whether this browser was recently asked about exactly this target. If not, it answers the request.
func (h *handler) confirmed(w http.ResponseWriter, r *http.Request) bool {
	c, err := r.Cookie(cookieName)
	field := r.PostForm.Get
	ends, endsErr := strconv.ParseInt(field("until"), 10, 64)
	if err == nil && c.Value != "" && endsErr == nil && time.Now().Before(time.Unix(ends, 0)) &&
		h.vault.signed(field("confirmation"), c.Value, field("until"), routeOf(r.URL.Path), field("target")) {
		return true
	}
	h.writeMessage(w, http.StatusForbidden, "Please confirm again", "The confirmation page is too old, came from another replica or from "+
		"before a restart, or the browser blocks cookies. Nothing was released. Go back and try again.")
	return false
}

// forceUnlock releases the hold that was found, and returns the page to show afterwards.
func (h *handler) forceUnlock(r *http.Request, v *view, target hold, p *page, b *forceBody) *page {
	taken, found := b.Holder, b.found
	err := h.hub.insp.ForceUnlock(r.Context(), target.key, *found)
	switch {
	case err == nil:
		h.logger.Warn("lockmw: inspector: operator released a lock by force", "lock.key", v.shown(target.key), "lock.token", found.Token,
			"process", found.Process, "label", found.Label, "operator", h.operator(r), "client.address", r.RemoteAddr)
		lost := h.record(r, v, lockevents.Taken{Key: target.key, Mode: b.Lock.Mode, Holder: *found})
		p, b = h.look(r.Context(), v, target) // the current holder
		p.Status, b.Holder, b.Done, b.Lost = http.StatusOK, taken, true, v.problemOf(lost)
	case errors.Is(err, lockmw.ErrNotHeld): // another operator was faster, or the holder has unlocked
		p, b = h.look(r.Context(), v, target)
		p.Status, b.Holder = http.StatusConflict, nil
	default:
		p.Status, b.Problem = http.StatusServiceUnavailable, v.problemOf(err)
	}
	return p
}

// record writes forced releases and their operator to the history. An error means that they are missing there; the releases are done
// all the same.
func (h *handler) record(r *http.Request, v *view, taken ...lockevents.Taken) error {
	// The programs that record events decide the length of the stream; the maximum never shortens it.
	events := lockevents.New(h.hub.insp, lockevents.WithLength(lockevents.MaxLength))
	// The browser may have closed the connection by now.
	err := events.ForceUnlocked(context.WithoutCancel(r.Context()), cmp.Or(h.operator(r), "page"), taken...)
	if err != nil {
		h.logger.Warn("lockmw: inspector: recording forced releases failed", "error", v.problemOf(err).Message)
	}
	return err
}
