package library

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

var (
	onceLibrary     = Library{Name: "lockmw-once", Calls: openOnce, Ours: true}
	onceHTTPLibrary = Library{Name: "lockmw-http", Calls: openOnceHTTP, Ours: true}
	bareHTTPLibrary = Library{Name: "http", Calls: openBareHTTP, Baseline: true}
)

// once is this module's idempotency.Do with its defaults. Refuse is the policy for work that must not be done twice.
type once struct {
	*Lockmw
	runner *idempotency.Runner
	work   Work
}

func openOnce(c Config, work Work) (Caller, error) { return openRunner(c, work) }

func openRunner(c Config, work Work) (*once, error) {
	l, err := OpenLockmw(c)
	if err != nil {
		return nil, err
	}
	runner := idempotency.New(l.Client, idempotency.WithTTL(kept), idempotency.WithLockOptions(lockmw.WithLease(c.leaseOf())))
	return &once{l, runner, work}, nil
}

// Call implements Caller. Request and answer are kept as JSON.
func (o *once) Call(ctx context.Context, c Call) ([]byte, error) {
	key := idempotency.Key{Scope: c.Scope, ID: c.ID}
	answer, err := idempotency.Do(ctx, o.runner, key, string(c.Body), idempotency.Refuse, func(context.Context, string) (string, error) {
		answer, err := o.work(c)
		return string(answer), err
	})
	return []byte(answer), err
}

// onceHTTP is this module's httpmw.Idempotent on a server of net/http.
type onceHTTP struct {
	*site
	once *once
}

func openOnceHTTP(c Config, work Work) (Caller, error) {
	o, err := openRunner(c, work)
	if err != nil {
		return nil, err
	}
	// A real service takes the scope from the authenticated user.
	middleware := httpmw.Idempotent(o.runner, httpmw.Header(scopeHeader), idempotency.Refuse)
	s, err := openHTTP(middleware(handler(work)))
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return &onceHTTP{s, o}, nil
}

// Close implements Caller.
func (o *onceHTTP) Close() error {
	return errors.Join(o.site.Close(), o.once.Close())
}

// openBareHTTP is the same server without the middleware: it repeats the work of each call.
func openBareHTTP(_ Config, work Work) (Caller, error) { return openHTTP(handler(work)) }

func openHTTP(h http.Handler) (*site, error) {
	server := &http.Server{Handler: h} //nolint:gosec // no client is slow
	return openSite(server.Serve, server.Shutdown)
}

// handler does the work of a request.
func handler(work Work) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := work(Call{Scope: r.Header.Get(scopeHeader), ID: r.Header.Get(keyHeader), Body: body})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(answer) // the client notices
	})
}
