package lockmw

import (
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
)

// SelfWait implements core.Events: the call waits for a hold of this process, which internal/localq/waiter.go has found. If that is a
// hold of its own caller, the call waits for itself. Each hold is logged once, however many calls wait for it, and only one hold in 10 s.
func (l *heldLock) SelfWait(h core.LocalHold) {
	if l.req.Leads || l.req.Once { // these calls may wait for a leader or a job of their own process
		return
	}
	calls := callers()
	if calls.areOfMiddleware() { // the holder is another request or another task
		return
	}
	l.mu.Lock()
	l.stalled = &h
	l.mu.Unlock()
	holder, ok := h.Request.Events.(*heldLock)
	if !ok || holder.selfWaitLogged.Swap(true) {
		return
	}
	missed, ok := l.locker.lines.Allow("self-wait")
	if !ok {
		return
	}
	args := append([]any{"key", l.req.Key, "suppressed", missed}, l.about()...)
	args = append(args, calls.describe("call")...)
	l.locker.Logger().Warn("lockmw: a call waits for a lock that its own process holds; if its caller is the holder, it has to use the context that Lock returned",
		append(args, slog.Group("holder", holder.describe(h)...))...)
}

// describe returns the log attributes of h, a hold of this lock. With WithStacks they include where it was taken.
func (l *heldLock) describe(h core.LocalHold) []any {
	args := append(l.about(),
		"token", h.Token, "owner", l.req.Owner, "since", h.Since, "held", time.Since(h.Since).Round(time.Millisecond))
	if l.takenAt != nil {
		args = append(args, l.takenAt.describe("taken_by")...)
	}
	return args
}

// about returns the log attributes of a call for the lock, without its key.
func (l *heldLock) about() []any {
	args := []any{"mode", l.req.Mode.String()}
	if l.req.Label != "" {
		args = append(args, "label", l.req.Label)
	}
	return args
}

// explainSelfWait adds the likely reason to the error of a call that waited for a hold of this process.
func (l *heldLock) explainSelfWait(err error) error {
	l.mu.Lock()
	h := l.stalled
	l.mu.Unlock()
	if h == nil {
		return err
	}
	return fmt.Errorf("%w; this process itself has held it since %s (token %d): perhaps the context that Lock returned was not used",
		err, h.Since.Format(time.TimeOnly), h.Token)
}

// shownCallers limits how many callers of the call site are logged.
const shownCallers = 4

// A stack is the call stack of a call for a lock.
type stack struct {
	calls [31]uintptr
	n     int
}

func callers() *stack {
	s := &stack{}
	s.n = runtime.Callers(2, s.calls[:])
	return s
}

// describe returns the log attributes of the call site, the first of which is called name.
func (s *stack) describe(name string) []any {
	site, calledBy := s.callSite()
	args := []any{name, site}
	if len(calledBy) > 0 {
		args = append(args, "called_by", calledBy)
	}
	return args
}

// callSite returns the function that called this module, and its callers. If a call waits for itself, they often include the
// function that took the lock first.
func (s *stack) callSite() (site string, calledBy []string) {
	frames := runtime.CallersFrames(s.calls[:s.n])
	for more := true; more && len(calledBy) < shownCallers; {
		var f runtime.Frame
		f, more = frames.Next()
		switch name := fmt.Sprintf("%s (%s:%d)", f.Function, path.Base(f.File), f.Line); {
		case f.Function == "" || strings.HasPrefix(f.Function, "runtime."):
		case site != "":
			calledBy = append(calledBy, name)
		case !isOwn(f.Function):
			site = name
		}
	}
	return site, calledBy
}

// middlewares are the packages of this module that call for locks on behalf of requests, tasks, jobs and messages.
var middlewares = []string{"asynqmw", "consume", "grpcmw", "httpmw", "idempotency", "rivermw"}

// areOfMiddleware reports whether the call came from a middleware of this module. They use the context of a hold for calls within it,
// so such a call does not wait for itself.
func (s *stack) areOfMiddleware() bool {
	frames := runtime.CallersFrames(s.calls[:s.n])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if slices.Contains(middlewares, packageOf(f.Function)) {
			return true
		}
		if f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") && !isOwn(f.Function) { // the call site
			return false
		}
	}
	return false
}

// isOwn reports whether a function belongs to the packages between a call site and the wait.
func isOwn(function string) bool {
	pkg := packageOf(function)
	if strings.HasPrefix(pkg, "internal/") {
		return !strings.HasPrefix(pkg, "internal/test/") && !strings.HasPrefix(pkg, "internal/bench/")
	}
	return slices.Contains([]string{"lockmw", "fairlock", "rwlock", "semaphore", "redlock", "bridge", "idempotency"}, pkg)
}

// packageOf returns the package of this module that has the function, such as "lockmw" or "internal/core"; "" if none has it.
func packageOf(function string) string {
	rest, ok := strings.CutPrefix(function, "github.com/lockmw/go/")
	if !ok {
		return ""
	}
	pkg, _, _ := strings.Cut(rest, ".")
	return pkg
}
