package main

import (
	"context"
	"net/http"
)

// answerChecks starts to answer health checks on the address of --health and returns its URL. Stop ends that, and waits for it.
func (s *serving) answerChecks(ctx context.Context) (where string, stop func() error, err error) {
	if s.health == "" {
		return "", func() error { return nil }, nil
	}
	listener, err := listen(ctx, s.health)
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- serveUntil(ctx, listener, s.healthChecks()) }()
	return shownURL(listener.Addr()), func() error {
		cancel()
		return <-ended
	}, nil
}

// healthChecks answers /livez while the process works, and /readyz while Redis answers. Neither says why it does not: that is for
// the page and for doctor, which not everyone can reach.
func (s *serving) healthChecks() http.Handler {
	checks := http.NewServeMux()
	checks.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { healthy(w) })
	checks.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.timeout)
		defer cancel()
		if err := s.conn.client.Ping(ctx).Err(); err != nil {
			http.Error(w, "Redis does not answer", http.StatusServiceUnavailable)
			return
		}
		healthy(w)
	})
	return checks
}

func healthy(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte("ok\n"))
}
