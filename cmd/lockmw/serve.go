package main

import (
	"context"
	"errors"
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

// A serving is a run of `lockmw serve`.
type serving struct {
	*command
	addr        string
	forceUnlock bool
	traceURL    string
	hosts       []string
}

func (c *command) serve() *cobra.Command {
	s := &serving{command: c, addr: "localhost:8080"}
	cmd := &cobra.Command{
		Use:   "serve [HOST:PORT]",
		Short: "Serve the page about locks, for those who mount it nowhere",
		Long: `Serves the page of package inspector: all locks, one lock, the server. It is for this machine unless another address is given:
it has no authentication, so whoever reaches it sees keys, labels and hosts, and with --force-unlock releases locks.

It answers to localhost, to IP addresses and to the names of --host. A request with another name in its Host header is refused:
the name of a stranger's page may lead here (DNS rebinding).

:8080 is all addresses of this machine. It ends with Ctrl-C.`,
		Example: `  lockmw serve
  lockmw serve :8080 --host locks.internal`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				s.addr = args[0]
			}
			if s.traceURL != "" && !isTraceURL(s.traceURL) {
				return usage("--trace-url: an http or https URL with {trace_id} in it")
			}
			if err := s.checkHosts(cmd.Flags().Changed("host")); err != nil {
				return err
			}
			return s.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&s.forceUnlock, "force-unlock", false, "let who sees the page release locks")
	cmd.Flags().StringVar(&s.traceURL, "trace-url", "", "link holds to traces, such as https://jaeger.example.com/trace/{trace_id}")
	cmd.Flags().StringSliceVar(&s.hosts, "host", nil, "name by which browsers reach the page, such as locks.internal; may be repeated")
	return cmd
}

// isTraceURL reports whether inspector.WithTraceURL takes it.
func isTraceURL(text string) (ok bool) {
	defer func() { ok = recover() == nil }()
	inspector.WithTraceURL(text)
	return
}

func (s *serving) run(ctx context.Context) error {
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
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.addr)
	if err != nil {
		return usage("%v", err)
	}
	own := isOwn(listener.Addr())
	server := &http.Server{Handler: s.checkingHost(inspector.Handler(insp, opts...)), ReadHeaderTimeout: 10 * time.Second}
	where := url.URL{Scheme: "http", Host: shownHost(listener.Addr()), Path: "/"}
	if err := s.tellWhere(where.String(), own); err != nil {
		return errors.Join(err, listener.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done(): // an interrupt is how it ends; pages that wait for changes are not waited for
		err := server.Close()
		if closed := <-ended; !errors.Is(closed, http.ErrServerClosed) {
			err = errors.Join(err, closed)
		}
		return err
	}
}

func (s *serving) tellWhere(where string, own bool) error {
	if !s.json {
		printf(s.out, "%s\n", where)
	} else if err := s.printJSON(struct {
		URL string `json:"url"`
	}{where}); err != nil {
		return err
	}
	if !own {
		printf(s.io.err, "lockmw: whoever reaches this address sees the locks: there is no authentication\n")
		if s.forceUnlock {
			printf(s.io.err, "lockmw: and may release them\n")
		}
	}
	return s.out.Flush()
}

// isOwn reports whether only this machine reaches an address.
func isOwn(addr net.Addr) bool {
	at, err := netip.ParseAddrPort(addr.String())
	return err == nil && at.Addr().IsLoopback()
}

// shownHost is an address as a browser here reaches it.
func shownHost(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip, err := netip.ParseAddr(host); err == nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// hostName is what a Host header may name besides localhost and addresses.
var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$`)

// checkHosts prepares the names that --host lists.
func (s *serving) checkHosts(given bool) error {
	if given && len(s.hosts) == 0 {
		s.hosts = []string{""}
	}
	for i, name := range s.hosts {
		s.hosts[i] = normalHost(name)
		if !hostName.MatchString(s.hosts[i]) {
			return usage("--host %q: a name such as locks.internal, without scheme and port", name)
		}
	}
	return nil
}

// normalHost is the name of a host, as names are compared.
func normalHost(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// checkingHost answers requests for localhost, for addresses and for the names of --host. Another name can belong to a stranger who
// has it lead to this address (DNS rebinding): that stranger's page would read all, and release locks, in its visitor's browser.
func (s *serving) checkingHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.isOurs(r.Host) {
			http.Error(w, "this page does not answer to that name: see lockmw serve --host", http.StatusForbidden)
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
