package inspector

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/lockmw"
)

// A view is what one request may see.
type view struct {
	*handler
	ctx      context.Context //nolint:containedctx // a view is of one request
	mayForce bool
	keyPage  string // what links to keys lead to
}

func (h *handler) view(r *http.Request) *view {
	return &view{h, r.Context(), h.config.mayForce != nil && h.config.mayForce(r), "key"}
}

// shown is what viewers see of a key.
func (c *config) shown(key string) (text string) {
	if c.redactKey == nil {
		return key
	}
	defer func() {
		if recover() != nil { // the value may have the key in it
			text = "(the key redactor panicked)"
		}
	}()
	return c.redactKey(key)
}

// address is the part of a query that says which key is meant.
func (h *handler) address(key string) url.Values {
	if h.redactKey == nil {
		return url.Values{"key": {key}}
	}
	return url.Values{"id": {h.vault.sealKey(key)}}
}

// href is a link to what is said of key, relative to all pages.
func (v *view) href(key string) string { return v.keyPage + "?" + v.address(key).Encode() }

// addressed is the reverse of address. Where keys are redacted, nobody can ask for one by guessing it.
func (h *handler) addressed(values url.Values) (key string, err error) {
	key = values.Get("key")
	if h.redactKey != nil {
		var ok bool
		if key, ok = h.vault.openKey(values.Get("id")); !ok {
			return "", errors.New("this link is not of this page: it may be from before a restart, or of another replica (WithSecret)")
		}
	}
	if key == "" || len(key) > 1024 {
		return "", errors.New("a key has 1 to 1024 bytes")
	}
	return key, nil
}

// forceHref is a link to the page that asks whether to take the lock away from hd.
func (h *handler) forceHref(key string, hd *lockmw.Holder) string {
	return "force-unlock?" + h.addressHold(key, hd.Owner, strconv.FormatInt(hd.Token, 10)).Encode()
}

// addressHold is address for one hold of the key.
func (h *handler) addressHold(key, owner, token string) url.Values {
	values := h.address(key)
	values.Set("owner", owner)
	values.Set("token", token)
	return values
}

// rights is where the rights are listed that an Inspector needs.
const rights = "https://github.com/lockmw/go/blob/main/docs/operations.md#access-rights"

// problemOf says what an error is; nil if there is none.
func (c *config) problemOf(err error) *problem {
	if err == nil {
		return nil
	}
	p := &problem{Type: "lock_error", Message: plain(err.Error())}
	if failed, ok := errors.AsType[*lockmw.Error](err); ok {
		p.Type = failed.ErrorType()
	}
	switch {
	case errors.Is(err, lockmw.ErrWrongType):
		p.Help = "Another program's data is at the lock's key in Redis."
	case strings.Contains(err.Error(), "NOPERM"):
		p.Help, p.Page = "The user of this page needs the rights of an Inspector, +scan among them.", rights
	case strings.Contains(err.Error(), "WRONGPASS"), strings.Contains(err.Error(), "NOAUTH"):
		p.Help = "Redis does not accept the user or the password of this page."
	case errors.Is(err, lockmw.ErrUnavailable):
		p.Help = "The page tries again and again."
		if remedy := doctor.Remedy(err); remedy != "" {
			p.Help = "What helps: " + remedy + ". " + p.Help
		}
	}
	if c.redactKey != nil { // servers may repeat keys
		p.Message = p.Type
	}
	return p
}
