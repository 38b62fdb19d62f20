package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
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
}

func (c *command) serve() *cobra.Command {
	s := &serving{command: c, addr: "localhost:8080"}
	cmd := &cobra.Command{
		Use:   "serve [HOST:PORT]",
		Short: "Serve the page about locks, for those who mount it nowhere",
		Long: `Serves the page of package inspector: all locks, one lock, the server. It is for this machine unless another address is given:
it has no authentication, so whoever reaches it sees keys, labels and hosts, and with --force-unlock releases locks.

:8080 is all addresses of this machine. It ends with Ctrl-C.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				s.addr = args[0]
			}
			if s.traceURL != "" && !isTraceURL(s.traceURL) {
				return usage("--trace-url: an http or https URL with {trace_id} in it")
			}
			return s.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&s.forceUnlock, "force-unlock", false, "let who sees the page release locks")
	cmd.Flags().StringVar(&s.traceURL, "trace-url", "", "link holds to traces, such as https://jaeger.example.com/trace/{trace_id}")
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
	page := inspector.Handler(insp, opts...)
	server := &http.Server{Handler: page, ReadHeaderTimeout: 10 * time.Second}
	if own {
		server.Handler = onlyHere(page)
	}
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
	if s.json {
		err := s.printJSON(struct {
			URL string `json:"url"`
		}{where})
		return errors.Join(err, s.out.Flush())
	}
	printf(s.out, "%s\n", where)
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

// onlyHere refuses requests for other hosts: a page elsewhere could have its name lead to this machine, and read all in its visitor's
// browser.
func onlyHere(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			http.Error(w, "this page is for localhost only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
