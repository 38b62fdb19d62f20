package asynqmw_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// For any payload and headers, a task is processed under the right key or archived. It causes no panic, and no key that other tasks
// share by mistake.
func FuzzTask(f *testing.F) {
	for _, payload := range []string{
		`{"Item":"7"}`, `{"Item":""}`, `{}`, `{"item":"7"}`, `{"Item":"a:b%"}`, `{"Item":7}`, `{"Item":null}`, `{"Item":"7"}x`,
		`null`, `[]`, `"7"`, ``, ` `, `{`, "\x00", "{\"Item\":\"\xff\"}", `{"Item":"\u0000\ud800"}`, `{"Item":"1","Item":"2"}`, `{"Item":"7","Item":5}`,
		`{"Item":"` + strings.Repeat("7", 1025) + `"}`, strings.Repeat("[", 20_000),
	} {
		f.Add([]byte(payload), "User", "42")
	}
	for _, name := range []string{"user", "", "User ", "traceparent", "tracestate", "baggage"} {
		f.Add([]byte(`{"Item":"7"}`), name, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	}
	for _, value := range []string{"", ":", "%3A", "\xff\x00", "=;,", strings.Repeat("a=b,", 3000)} {
		f.Add([]byte(`{"Item":"7"}`), "User", value)
		f.Add([]byte(`{"Item":"7"}`), "baggage", value)
		f.Add([]byte(`{"Item":"7"}`), "traceparent", value)
	}
	f.Fuzz(func(t *testing.T, payload []byte, header, value string) {
		task := asynq.NewTaskWithHeaders("order:fulfil", payload, map[string]string{header: value})
		for _, part := range []struct {
			name string
			part asynqmw.Part
			want string
		}{
			{"Payload", asynqmw.Payload(func(o order) string { return o.Item }), itemOf(payload)},
			{"Header", asynqmw.Header("User"), map[string]string{header: value}["User"]},
		} {
			want := ""
			if part.want != "" {
				want = lockmw.Key("item", part.want)
			}
			processTask(t, part.name, asynqmw.By("item", part.part), task, want)
		}
	})
}

// itemOf returns the item of a payload; "" if the payload is invalid.
func itemOf(payload []byte) string {
	var o order
	if !utf8.Valid(payload) || json.Unmarshal(payload, &o) != nil {
		return ""
	}
	return o.Item
}

func processTask(t *testing.T, name string, key asynqmw.KeyFunc, task *asynq.Task, want string) {
	t.Helper()
	local := lockmw.NewLocal()
	ran := false
	handler := asynqmw.Trace(nil)(asynqmw.WithLock(local, key)(handle(func(ctx context.Context) error {
		ran = true
		_, err := lockmw.Held(ctx, want)
		return err
	})))
	err := handler.ProcessTask(t.Context(), task)
	switch valid := want != "" && len(want) <= 1024; {
	case valid && (err != nil || !ran):
		t.Errorf("%s: %q is not processed under %q: %v", name, task.Payload(), want, err)
	case valid && !usertest.IsFree(local, want):
		t.Errorf("%s: %q is still locked", name, want)
	case !valid && (ran || !errors.Is(err, asynq.SkipRetry)):
		t.Errorf("%s: %q is not archived: %v", name, task.Payload(), err)
	}
}
