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

// A view has the rights and links of one request.
type view struct {
	*handler
	ctx      context.Context //nolint:containedctx // a view belongs to one request
	mayForce bool
	keyPage  string // target of links to keys
}

func (h *handler) view(r *http.Request) *view {
	return &view{h, r.Context(), h.config.mayForce != nil && h.config.mayForce(r), "key"}
}

// shown returns a key as viewers may see it.
func (c *config) shown(key string) (text string) {
	if c.redactKey == nil {
		return key
	}
	defer func() {
		if recover() != nil { // the panic value may contain the key
			text = "(the key redactor panicked)"
		}
	}()
	return c.redactKey(key)
}

// address returns the query parameters that identify a key.
func (h *handler) address(key string) url.Values {
	if h.redactKey == nil {
		return url.Values{"key": {key}}
	}
	return url.Values{"id": {h.vault.sealKey(key)}}
}

// href is a link to the page of a key, relative to all pages.
func (v *view) href(key string) string { return v.keyPage + "?" + v.address(key).Encode() }

// addressed is the reverse of address. With redacted keys, a viewer cannot guess a key and ask for it.
func (h *handler) addressed(values url.Values) (key string, err error) {
	key = values.Get("key")
	if h.redactKey != nil {
		var ok bool
		if key, ok = h.vault.openKey(values.Get("id")); !ok {
			return "", errors.New("this link is not valid here: it may be from before a restart, or from another replica (WithSecret)")
		}
	}
	if key == "" || len(key) > 1024 {
		return "", errors.New("a key has 1 to 1024 bytes")
	}
	return key, nil
}

// forceHref is a link to the confirmation page for the release of hd.
func (h *handler) forceHref(key string, hd *lockmw.Holder) string {
	values := h.address(key)
	values.Set("owner", hd.Owner)
	values.Set("token", strconv.FormatInt(hd.Token, 10))
	return "force-unlock?" + values.Encode()
}

// rights is the page that lists the rights of an Inspector.
const rights = "https://github.com/lockmw/go/blob/main/docs/operations.md#access-rights"

// problemOf describes an error, with a remedy; nil for a nil error.
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
		p.Help = "The key in Redis holds another program's data."
	case strings.Contains(err.Error(), "NOPERM"):
		p.Help, p.Page = "The Redis user of this page lacks rights, such as +scan.", rights
	case strings.Contains(err.Error(), "WRONGPASS"), strings.Contains(err.Error(), "NOAUTH"):
		p.Help = "Redis rejects the user or the password of this page."
	case errors.Is(err, lockmw.ErrUnavailable):
		p.Help = "The page keeps trying."
		if remedy := doctor.Remedy(err); remedy != "" {
			p.Help = "Remedy: " + remedy + ". " + p.Help
		}
	}
	if c.redactKey != nil { // error messages may contain keys
		p.Message = p.Type
	}
	return p
}
