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
	// confirmWithin is how long a page that asks may be answered.
	confirmWithin = 10 * time.Minute
)

// A hold is which one is to be taken away: the very one that somebody has seen.
type hold struct {
	key, owner, token string
}

type forceBody struct {
	Lock    *lock
	Holder  *holder    // nil: it is over
	Fields  url.Values // of the form; nil: there is none
	Back    string     // to the page of the key
	Done    bool
	Problem *problem
	Lost    *problem // why the release is not in the history; nil: it is
}

// serveForceUnlock shows a hold and asks, or takes the lock away from it.
func (h *handler) serveForceUnlock(w http.ResponseWriter, r *http.Request) {
	v := h.view(r)
	values, ok := h.instruction(w, r, v)
	if !ok {
		return
	}
	key, err := h.addressed(values)
	if err != nil {
		h.write(w, h.message(http.StatusNotFound, "No such key", err.Error()))
		return
	}
	target := hold{key, values.Get("owner"), values.Get("token")}
	if r.Method == http.MethodPost {
		h.forceUnlock(w, r, v, target)
		return
	}
	h.ask(w, r, v, target)
}

// instruction returns what somebody who may force releases asks about, or has confirmed, and whether there is anything to do.
func (h *handler) instruction(w http.ResponseWriter, r *http.Request, v *view) (values url.Values, ok bool) {
	if !v.mayForce {
		h.write(w, h.message(http.StatusForbidden, "Not allowed", "You may look at locks here, but not take them away."))
		return nil, false
	}
	if r.Method != http.MethodPost {
		return r.URL.Query(), true
	}
	// The check of the site looks at Sec-Fetch-Site, or at Origin where browsers do not send that.
	if err := h.same.Check(r); err != nil {
		h.write(w, h.message(http.StatusForbidden, "Not from this page", "The request came from another site. Nothing was done."))
		return nil, false
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<14)
	if err := r.ParseForm(); err != nil {
		h.write(w, h.message(http.StatusBadRequest, "Bad request", "The form cannot be read. Nothing was done."))
		return nil, false
	}
	// In one field, encoded: browsers change line ends and bytes that are no UTF-8.
	values, _ = url.ParseQuery(r.PostForm.Get("target")) // what is wrong is missing, and so is not found
	return values, true
}

// form returns the fields of a form that confirms what was asked about: the target, and what is signed of it.
func (h *handler) form(w http.ResponseWriter, r *http.Request, target url.Values, signed ...string) url.Values {
	nonce := h.nonce(w, r)
	until := strconv.FormatInt(time.Now().Add(confirmWithin).Unix(), 10)
	return url.Values{
		"target":       {target.Encode()},
		"until":        {until},
		"confirmation": {h.vault.sign(append([]string{nonce, until}, signed...)...)},
	}
}

// look returns what is held under the key now, and the hold that is meant, if it is still there.
func (h *handler) look(ctx context.Context, v *view, target hold) (*page, *forceBody, *lockmw.Holder) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	seen, err := h.hub.readKey(ctx, target.key)
	now := time.Now()
	p := &page{Name: "force", Title: v.shown(target.key), Prefix: h.hub.insp.Prefix(), AsOf: now.UTC(), Status: http.StatusOK}
	b := &forceBody{Lock: v.lock(&seen.Status, seen.wrong, now, true), Back: v.href(target.key)}
	p.Body = b
	if err != nil {
		p.Status, p.Notice = http.StatusServiceUnavailable, &notice{true, "Redis could not be read. Nothing was done.", v.problemOf(err)}
		return p, b, nil
	}
	for i := range seen.Holders {
		if hd := &seen.Holders[i]; hd.Owner == target.owner && strconv.FormatInt(hd.Token, 10) == target.token {
			b.Holder = &b.Lock.Holders[i]
			return p, b, hd
		}
	}
	p.Status = http.StatusConflict
	return p, b, nil
}

// ask shows the very hold, with a form that is good for no other.
func (h *handler) ask(w http.ResponseWriter, r *http.Request, v *view, target hold) {
	p, b, _ := h.look(r.Context(), v, target)
	if b.Holder != nil {
		b.Fields = h.form(w, r, h.addressHold(target.key, target.owner, target.token), target.key, target.owner, target.token)
	}
	h.write(w, p)
}

// nonce returns that of the browser's cookie, and sets one if there is none. The cookie is for the path where the handler is
// mounted, which is what a browser takes if none is given.
func (h *handler) nonce(w http.ResponseWriter, r *http.Request) string {
	if c, err := r.Cookie(cookieName); err == nil && c.Value != "" {
		return c.Value
	}
	nonce := rand.Text()            // 128 bits
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure over TLS; behind a proxy that ends it, a cookie without is sent, too
		Name: cookieName, Value: nonce, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
	return nonce
}

// confirmed reports whether the browser was asked about this very target, not long ago. If not it says so.
func (h *handler) confirmed(w http.ResponseWriter, r *http.Request, signed ...string) bool {
	c, err := r.Cookie(cookieName)
	until := r.PostForm.Get("until")
	ends, endsErr := strconv.ParseInt(until, 10, 64)
	if err == nil && c.Value != "" && endsErr == nil && time.Now().Before(time.Unix(ends, 0)) &&
		h.vault.signed(r.PostForm.Get("confirmation"), append([]string{c.Value, until}, signed...)...) {
		return true
	}
	h.write(w, h.message(http.StatusForbidden, "Please confirm again", "This page was shown too long ago, by another replica, "+
		"before a restart, or to a browser that takes no cookies. Nothing was done: go back and ask again."))
	return false
}

func (h *handler) forceUnlock(w http.ResponseWriter, r *http.Request, v *view, target hold) {
	if !h.confirmed(w, r, target.key, target.owner, target.token) {
		return
	}
	p, b, found := h.look(r.Context(), v, target)
	if found == nil {
		h.write(w, p)
		return
	}
	err := h.hub.insp.ForceUnlock(r.Context(), target.key, *found)
	switch {
	case err == nil:
		h.logger.Warn("lockmw: inspector: a lock was taken away from its holder", "lock.key", v.shown(target.key), "lock.token", found.Token,
			"process", found.Process, "label", found.Label, "operator", h.operator(r), "client.address", r.RemoteAddr)
		lost := h.record(r, v, lockevents.Taken{Key: target.key, Mode: b.Lock.Mode, Holder: *found})
		taken := b.Holder
		p, b, _ = h.look(r.Context(), v, target) // who has it now
		p.Status, b.Holder, b.Done, b.Lost = http.StatusOK, taken, true, v.problemOf(lost)
	case errors.Is(err, lockmw.ErrNotHeld): // somebody else was quicker, or the holder has unlocked
		p, b, _ = h.look(r.Context(), v, target)
		p.Status, b.Holder = http.StatusConflict, nil
	default:
		p.Status, b.Problem = http.StatusServiceUnavailable, v.problemOf(err)
	}
	h.write(w, p)
}

// record notes in the history which holds an operator has released by force. It returns why they are not in the
// history: that does not change what was done.
func (h *handler) record(r *http.Request, v *view, taken ...lockevents.Taken) error {
	// The programs that record events say how long the stream is.
	events := lockevents.New(h.hub.insp, lockevents.WithLength(lockevents.MaxLength))
	// The browser may have left meanwhile.
	err := events.ForceUnlocked(context.WithoutCancel(r.Context()), cmp.Or(h.operator(r), "page"), taken...)
	if err != nil {
		h.logger.Warn("lockmw: inspector: forced releases are not in the history", "error", v.problemOf(err).Message)
	}
	return err
}
