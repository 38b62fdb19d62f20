package httpmw_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/internal/test/webtest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

// Scenario 30.
func TestTheTicketOfAClientThatLeavesIsWithdrawn(t *testing.T) {
	t.Parallel()
	wait := lockmw.WithWait(patience)
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		for name, mount := range map[string]func(c *lockmw.Client) func(http.Handler) http.Handler{
			"plain": func(c *lockmw.Client) func(http.Handler) http.Handler {
				return httpmw.WithLock(c, secretUser, wait)
			},
			"fair": func(c *lockmw.Client) func(http.Handler) http.Handler {
				return httpmw.WithLock(fairlock.New(c), secretUser, wait)
			},
			"rw": func(c *lockmw.Client) func(http.Handler) http.Handler {
				return httpmw.WithRWLock(rwlock.New(c), secretUser, wait)
			},
			"several": func(c *lockmw.Client) func(http.Handler) http.Handler {
				first := httpmw.By("account", func(*http.Request) (string, error) { return "1", nil })
				return httpmw.WithLockAll(c, httpmw.All(first, secretUser), wait)
			},
			"forever": func(c *lockmw.Client) func(http.Handler) http.Handler {
				return httpmw.WithLock(c, secretUser, lockmw.WithWait(lockmw.Forever))
			},
		} {
			for protocol, edit := range webtest.Protocols {
				t.Run(name+" "+protocol, func(t *testing.T) {
					waits, failures := make(chan lockmw.Contention, 10), make(chan error, 10)
					locks, other := usertest.Client(t, s, lockmw.WithObserver(&lockmw.Observer{
						Contended: func(_ context.Context, _ lockmw.Attempt, c lockmw.Contention) { waits <- c },
						Failed:    func(_ context.Context, _ lockmw.Attempt, err error) { failures <- err },
					})), usertest.Client(t, s)
					release := usertest.Occupy(t, other, "user:secret-42")
					logged, statuses := webtest.AccessLog(mount(locks)(never(t)))
					site := webtest.NewSite(t, logged, edit)
					ctx, leave := context.WithCancel(t.Context())
					left := make(chan error, 1)
					go func() {
						resp, err := site.Send(ctx, http.MethodPost, "/", nil)
						if err == nil {
							err = errors.Join(resp.Body.Close(), errors.New(resp.Status))
						}
						left <- err
					}()
					usertest.Receive(t, "the request waits", waits) // Redis may queue the call before the process learns of it
					if n := queued(t, s, "user:secret-42"); n != 1 {
						t.Errorf("%d tickets, want 1", n)
					}
					leave()
					usertest.Eventually(t, "its ticket is withdrawn", patience, func() bool { return queued(t, s, "user:secret-42") == 0 })
					if status := usertest.Receive(t, "the access log", statuses); status != 499 {
						t.Errorf("the access log has status %d, want 499", status)
					}
					failure, _ := errors.AsType[*lockmw.Error](usertest.Receive(t, "the observer is called", failures))
					if failure == nil || failure.ErrorType() != "lock_canceled" {
						t.Errorf("the observer saw %v", failure)
					}
					if err := usertest.Receive(t, "the client is gone", left); !errors.Is(err, context.Canceled) {
						t.Errorf("the client got an answer: %v", err)
					}
					release()
					for _, key := range []string{"user:secret-42", "account:1"} {
						usertest.Eventually(t, key+" is free", patience, func() bool { return usertest.IsFree(other, key) })
					}
				})
			}
		}
	})
}

func TestAClientThatLeavesDuringTheWorkEndsItsContextOnly(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		for protocol, edit := range webtest.Protocols {
			for what, stream := range map[string]bool{"unanswered": false, "streaming": true} {
				t.Run(protocol+" "+what, func(t *testing.T) {
					locks, other := usertest.Client(t, s), usertest.Client(t, s)
					inside, noticed := make(chan struct{}), make(chan struct{})
					finish := make(chan struct{})
					end := sync.OnceFunc(func() { close(finish) })
					logged, statuses := webtest.AccessLog(httpmw.WithLock(locks, secretUser)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if stream {
							_, _ = io.WriteString(w, "data: 1\n\n")
							w.(http.Flusher).Flush()
						}
						close(inside)
						<-r.Context().Done()
						if cause := context.Cause(r.Context()); !errors.Is(cause, context.Canceled) || errors.Is(cause, lockmw.ErrLost) {
							t.Errorf("cause %v, want that the client has gone", cause)
						}
						close(noticed)
						<-finish
					})))
					site := webtest.NewSite(t, logged, edit)
					t.Cleanup(end)
					ctx, leave := context.WithCancel(t.Context())
					left := make(chan struct{})
					go func() {
						defer close(left)
						resp, err := site.Send(ctx, http.MethodPost, "/", strings.NewReader(""))
						if err == nil {
							_, err = io.Copy(io.Discard, resp.Body)
							_ = resp.Body.Close()
						}
						if !errors.Is(err, context.Canceled) {
							t.Errorf("the client got a complete answer: %v", err)
						}
					}()
					usertest.Receive(t, "the handler runs", inside)
					leave()
					usertest.Receive(t, "the handler notices", noticed)
					if usertest.IsFree(other, "user:secret-42") {
						t.Error("the lock is free though the handler has not returned")
					}
					end()
					usertest.Receive(t, "the client is gone", left)
					usertest.Receive(t, "the access log", statuses)
					usertest.Eventually(t, "the lock is free", patience, func() bool { return usertest.IsFree(other, "user:secret-42") })
				})
			}
		}
	})
}
