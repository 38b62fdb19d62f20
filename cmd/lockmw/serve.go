package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockmw/go/inspector"
)

// A serving is one run of `lockmw serve`.
type serving struct {
	*command
	addr        string
	health      string // where to answer health checks; "" for nowhere
	forceUnlock bool
	traceURL    string
	hosts       []string
}

func (c *command) serve() *cobra.Command {
	s := &serving{command: c, addr: "localhost:8080"}
	cmd := &cobra.Command{
		Use:   "serve [HOST:PORT]",
		Short: "Serve the inspector UI locally",
		Long: `Serves the pages of package inspector: all locks, one lock, the server. By default only this machine can reach them. There is no
authentication: anyone who can reach another address sees keys, labels and hosts, and with --force-unlock can release locks.

It answers requests for localhost, for IP addresses and for the names of --host. It refuses other Host headers, because an
attacker's host name may resolve to this address (DNS rebinding).

The address :8080 listens on all addresses of this machine. Ctrl-C ends the command.

With --health it answers health checks on another address, which shows nothing about locks: /livez succeeds while the command
runs, and /readyz while Redis answers.`,
		Example: `  lockmw serve
  lockmw serve :8080 --host locks.internal
  lockmw serve --health :8081`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				s.addr = args[0]
			}
			if s.traceURL != "" && !isTraceURL(s.traceURL) {
				return usage("--trace-url: must be an http or https URL that contains {trace_id}")
			}
			if err := s.checkHosts(cmd.Flags().Changed("host")); err != nil {
				return err
			}
			return s.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&s.forceUnlock, "force-unlock", false, "let everyone who can reach the page release locks")
	cmd.Flags().StringVar(&s.health, "health", "", "`HOST:PORT` to answer /livez and /readyz on")
	cmd.Flags().StringVar(&s.traceURL, "trace-url", "", "URL of a trace, to link holds to, such as https://jaeger.example.com/trace/{trace_id}")
	cmd.Flags().StringSliceVar(&s.hosts, "host", nil, "host name to answer to, such as locks.internal; may be repeated")
	return cmd
}

// isTraceURL reports whether inspector.WithTraceURL accepts the text.
func isTraceURL(text string) (ok bool) {
	defer func() { ok = recover() == nil }()
	inspector.WithTraceURL(text)
	return
}

func (s *serving) run(ctx context.Context) (err error) {
	insp, err := s.connect(ctx)
	if err != nil {
		return err
	}
	var opts []inspector.Option
	if s.traceURL != "" {
		opts = append(opts, inspector.WithTraceURL(s.traceURL))
	}
	if s.forceUnlock {
		opts = append(opts, inspector.WithForceUnlock(func(*http.Request) bool { return true }))
	}
	listener, err := listen(ctx, s.addr)
	if err != nil {
		return err
	}
	checks, stop, err := s.answerChecks(ctx)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := s.tellWhere(shownURL(listener.Addr()), checks, isOwn(listener.Addr())); err != nil {
		return errors.Join(err, listener.Close())
	}
	return serveUntil(ctx, listener, s.checkingHost(inspector.Handler(insp, opts...)))
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, usage("%v", err)
	}
	return listener, nil
}

// serveUntil serves requests until ctx ends.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done(): // an interrupt ends it; Close does not wait for open event streams
		err := server.Close()
		if closed := <-ended; !errors.Is(closed, http.ErrServerClosed) {
			err = errors.Join(err, closed)
		}
		return err
	}
}

// tellWhere prints the address of the page, and in JSON the address of health checks if there is one.
func (s *serving) tellWhere(where, checks string, own bool) error {
	if !s.json {
		printf(s.out, "%s\n", where)
	} else if err := s.printJSON(struct {
		URL    string `json:"url"`
		Health string `json:"health,omitempty"`
	}{where, checks}); err != nil {
		return err
	}
	if !own {
		printf(s.io.err, "lockmw: no authentication: anyone who can reach this address sees the locks\n")
		if s.forceUnlock {
			printf(s.io.err, "lockmw: --force-unlock: they may release locks as well\n")
		}
	}
	return s.out.Flush()
}

// isOwn reports whether only this machine can reach an address.
func isOwn(addr net.Addr) bool {
	at, err := netip.ParseAddrPort(addr.String())
	return err == nil && at.Addr().IsLoopback()
}

// shownURL is the URL of an address in the form that a browser on this machine can open.
func shownURL(addr net.Addr) string {
	shown := url.URL{Scheme: "http", Host: addr.String(), Path: "/"}
	if at, err := netip.ParseAddrPort(shown.Host); err == nil && (at.Addr().IsLoopback() || at.Addr().IsUnspecified()) {
		shown.Host = fmt.Sprintf("localhost:%d", at.Port())
	}
	return shown.String()
}

// hostName matches the names that --host may allow.
var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$`)

// checkHosts checks and normalizes the names of --host.
func (s *serving) checkHosts(given bool) error {
	if given && len(s.hosts) == 0 {
		s.hosts = []string{""}
	}
	for i, name := range s.hosts {
		s.hosts[i] = normalHost(name)
		if !hostName.MatchString(s.hosts[i]) {
			return usage("--host %q: must be a name such as locks.internal, without scheme and port", name)
		}
	}
	return nil
}

// normalHost is a host name in the form in which names are compared.
func normalHost(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// checkingHost answers requests for localhost, for addresses and for the names of --host. An attacker can make any other name
// resolve to this address (DNS rebinding); the attacker's page could then read everything, and release locks, in its visitor's browser.
func (s *serving) checkingHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.isOurs(r.Host) {
			http.Error(w, "this server does not answer to that host name: see lockmw serve --host", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *serving) isOurs(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	name := normalHost(host)
	return name == "localhost" || slices.Contains(s.hosts, name)
}
