package mounttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func oneAtATime(f *Framework, t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	var orders atomic.Int32
	s := &Shop{Mount: f.byUser(lockmw.NewLocal()), Order: func(context.Context) error {
		if orders.Add(1) == 1 {
			close(begun)
			<-end
		}
		return nil
	}}
	h := f.Serve(s)
	done := make(chan *httptest.ResponseRecorder)
	go func() { done <- order(h, "42") }()
	<-begun
	if busy := order(h, "42"); busy.Code != http.StatusConflict {
		t.Errorf("while it is handled: %d %q", busy.Code, busy.Body)
	}
	if other := order(h, "43"); other.Code != http.StatusCreated || !strings.Contains(other.Body.String(), `"43"`) {
		t.Errorf("another key: %d %q", other.Code, other.Body)
	}
	close(end)
	if rec := <-done; rec.Code != http.StatusCreated || rec.Header().Get("X-Next") == "" || rec.Header().Get("Location") == "" {
		t.Errorf("the first: %d %q %v", rec.Code, rec.Body, rec.Header())
	}
	if rec := order(h, "42"); rec.Code != http.StatusCreated {
		t.Errorf("afterwards: %d", rec.Code)
	}
	if want := []int{409, 201, 201, 201}; len(s.statuses) != 4 || s.statuses[0] != want[0] || s.statuses[1] != want[1] {
		t.Errorf("outside of the lock the statuses are %v, want %v", s.statuses, want)
	}
}

func noNext(f *Framework, t *testing.T) {
	local := lockmw.NewLocal()
	usertest.Occupy(t, local, "user:42")
	rec := order(f.Serve(&Shop{Mount: f.byUser(local)}), "42")
	if rec.Code != http.StatusConflict || rec.Header().Get("X-Next") != "" || rec.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %q %v", rec.Code, rec.Body, rec.Header())
	}
}

func errorHandler(f *Framework, t *testing.T) {
	local := lockmw.NewLocal()
	h := f.Serve(&Shop{Mount: f.byUser(local, httpmw.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
		if errors.Is(err, lockmw.ErrBusy) {
			w.WriteHeader(http.StatusLocked)
			_, _ = io.WriteString(w, "later\n")
		}
	}))})
	usertest.Occupy(t, local, "user:42")
	if rec := order(h, "42"); rec.Code != http.StatusLocked || rec.Body.String() != "later\n" {
		t.Errorf("%d %q", rec.Code, rec.Body)
	}
}

// A framework that answers errors late writes them after the release of the lock, so that the loss comes first.
func lostAnswer(f *Framework, t *testing.T) {
	local := lockmw.NewLocal()
	s := &Shop{Mount: f.byUser(local), Order: func(ctx context.Context) error {
		local.Expire("user:42")
		if err := lost(ctx); err != nil {
			return err
		}
		return ErrNoStock
	}}
	status, problem := http.StatusUnprocessableEntity, ""
	if f.AnswersLate {
		status, problem = http.StatusInternalServerError, "lock-lost"
	}
	if rec := order(f.Serve(s), "42"); rec.Code != status || problemOf(t, rec) != problem {
		t.Errorf("%d %q, want %d %s", rec.Code, rec.Body, status, problem)
	}
	if s.ended != 0 || len(s.statuses) != 1 || s.statuses[0] != status {
		t.Errorf("outside of the lock: statuses %v, %d contexts have ended", s.statuses, s.ended)
	}
}

// Outer middleware has its own request and response back, whatever happened inside.
func outside(f *Framework, t *testing.T) {
	local := lockmw.NewLocal()
	for name, test := range map[string]struct {
		order  func(context.Context) error
		status int
	}{
		"success": {nil, http.StatusCreated},
		"error":   {func(context.Context) error { return ErrNoStock }, http.StatusUnprocessableEntity},
		"panic":   {func(context.Context) error { panic("out of paper") }, http.StatusInternalServerError},
		"loss":    {func(ctx context.Context) error { local.Expire("user:42"); return lost(ctx) }, http.StatusInternalServerError},
	} {
		s := &Shop{Mount: f.byUser(local), Order: test.order}
		rec := order(f.Serve(s), "42")
		if rec.Code != test.status || strings.Count(rec.Body.String(), "message") > 1 {
			t.Errorf("%s: %d %q", name, rec.Code, rec.Body)
		}
		if s.ended != 0 || len(s.statuses) != 1 || s.statuses[0] != test.status {
			t.Errorf("%s: outside of the lock: statuses %v, %d contexts have ended", name, s.statuses, s.ended)
		}
		if hasLocation := rec.Header().Get("Location") != ""; hasLocation != (name == "success") {
			t.Errorf("%s: a header of the success: %v", name, hasLocation)
		}
	}
}

func keyOfContext(f *Framework, t *testing.T) {
	local := lockmw.NewLocal()
	claimed := httpmw.WithLock(local, httpmw.By("user", httpmw.Claim(Caller)))
	h := f.Serve(&Shop{Mount: []func(http.Handler) http.Handler{claimed}})
	usertest.Occupy(t, local, "user:42")
	for user, want := range map[string]int{"42": http.StatusConflict, "43": http.StatusCreated, "": http.StatusUnauthorized} {
		rec := orderAs(h, httptest.NewRequest(http.MethodPost, "/users/1/orders", nil), user)
		if rec.Code != want {
			t.Errorf("user %q: %d %q, want %d", user, rec.Code, rec.Body, want)
		}
	}
}

// net/http removes the files of a form when the request has ended, and knows only its own request.
func form(f *Framework, t *testing.T) {
	if f.HidesForms {
		t.Skip("the framework copies the request")
	}
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	part, err := w.CreateFormFile("file", "order.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write([]byte("a chair"))
	_ = w.Close()
	var file string
	server := httptest.NewServer(f.Serve(&Shop{Mount: f.byUser(lockmw.NewLocal()), Raw: func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
			return
		}
		if opened, _, err := r.FormFile("file"); err == nil {
			file = opened.(*os.File).Name()
			_ = opened.Close()
		}
	}}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/users/42/raw", &body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", w.FormDataContentType())
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	server.Close() // waits for the request's end
	if file == "" {
		t.Fatalf("the handler got no file: %s", resp.Status)
	}
	if _, err := os.Stat(file); err == nil {
		t.Errorf("%s is left", file)
	}
}
