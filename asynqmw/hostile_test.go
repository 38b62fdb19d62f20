package asynqmw_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// For any payload and headers, a task has a lock of its own or is archived immediately. The error that asynq then shows is one short
// line.
func TestHostileTasks(t *testing.T) {
	byHeader := asynqmw.By("item", asynqmw.Header("item"))
	byNumber := asynqmw.By("item", asynqmw.Payload(func(o struct{ Item int }) string { return strconv.Itoa(o.Item) }))
	inHeader := func(value string) *asynq.Task {
		return asynq.NewTaskWithHeaders("order:fulfil", nil, map[string]string{"item": value})
	}
	inPayload := func(payload string) *asynq.Task { return asynq.NewTask("order:fulfil", []byte(payload)) }
	key := func(item string) string { return lockmw.Key("item", item) }
	for name, tt := range map[string]struct {
		key  asynqmw.KeyFunc
		task *asynq.Task
		want string // the key; "": archived
	}{
		"no payload":                      {byItem, inPayload(""), ""},
		"a payload that is not JSON":      {byItem, inPayload("secret\r\n\x00\xff"), ""},
		"a payload cut short":             {byItem, inPayload(`{"Item":"secret`), ""},
		"a payload of another kind":       {byItem, inPayload(`["secret"]`), ""},
		"a payload with a number":         {byItem, inPayload(`{"Item":` + strings.Repeat("7", 64<<10) + `}`), ""},
		"a payload with too big a number": {byNumber, inPayload(`{"Item":` + strings.Repeat("7", 64<<10) + `}`), ""},
		"a payload without the field":     {byItem, inPayload("{}"), ""},
		"a payload with null":             {byItem, inPayload(`{"Item":null}`), ""},
		"a payload that is null":          {byNumber, inPayload("null"), ""},
		"a payload nested too deeply":     {byItem, inPayload(strings.Repeat("[", 64<<10)), ""},
		"a payload of 64 KiB":             {byItem, inPayload(`{"Item":"` + strings.Repeat("s", 64<<10) + `"}`), ""},
		"a payload with separators":       {byItem, inPayload(`{"Item":"7:8%3A"}`), "item:7%3A8%253A"},
		"a payload with NUL and CRLF":     {byItem, inPayload(`{"Item":"7\u0000\r\n"}`), key("7\x00\r\n")},
		"a payload that is not UTF-8":     {byItem, inPayload("{\"Item\":\"7\xff\"}"), ""},
		"no header":                       {byHeader, inPayload(`{"Item":"7"}`), ""},
		"another header":                  {byHeader, asynq.NewTaskWithHeaders("order:fulfil", nil, map[string]string{"Item": "7"}), ""},
		"an empty header":                 {byHeader, inHeader(""), ""},
		"a header of 64 KiB":              {byHeader, inHeader(strings.Repeat("s", 64<<10)), ""},
		"a header cut inside of a letter": {byHeader, inHeader(strings.Repeat("ß", 32<<10)), ""},
		"a header with separators":        {byHeader, inHeader("7:8%3A"), "item:7%3A8%253A"},
		"a header with NUL and CRLF":      {byHeader, inHeader("7\x00\r\nSET a b\r\n"), key("7\x00\r\nSET a b\r\n")},
		"a header of blanks":              {byHeader, inHeader(" "), key(" ")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local, held := lockmw.NewLocal(), make(chan string, 1)
			q := startQueue(t, quick(), asynqmw.WithLock(local, tt.key)(handle(func(ctx context.Context) error {
				hold, _ := lockmw.FromContext(ctx)
				held <- hold.Key()
				return nil
			})))
			info := q.await(q.enqueue(tt.task, asynq.Retention(time.Hour)), asynq.TaskStateArchived, asynq.TaskStateRetry, asynq.TaskStateCompleted)
			if tt.want == "" {
				if info.State != asynq.TaskStateArchived {
					t.Errorf("the task is %v: %s", info.State, info.LastErr)
				}
				isOneShortLine(t, info.LastErr)
				return
			}
			if got := receive(t, held); got != tt.want {
				t.Errorf("processed under %q, want %q", got, tt.want)
			}
			// The next task finds the lock busy.
			usertest.Occupy(t, local, tt.want)
			id := q.enqueue(tt.task)
			eventually(t, func() bool {
				info, err := q.inspector.GetTaskInfo("default", id)
				return err == nil && info.LastErr != ""
			})
			isOneShortLine(t, q.await(id, asynq.TaskStateRetry, asynq.TaskStatePending, asynq.TaskStateActive).LastErr)
		})
	}
}

// isOneShortLine checks an error that asynq stores and its tools show.
func isOneShortLine(t *testing.T, text string) {
	t.Helper()
	if text == "" || len(text) > 400 || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		t.Errorf("asynq stores the error %.500q", text)
	}
	if strings.Contains(text, "secret") {
		t.Errorf("asynq stores a part of the payload: %q", text)
	}
}

func TestAsynqRefusesAHeaderThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	q := newQueue(t, startRedis(t))
	task := asynq.NewTaskWithHeaders("order:fulfil", nil, map[string]string{"item": "\xff"})
	if _, err := q.client.Enqueue(task); err == nil {
		t.Error("asynq accepts the header, so a key may not be UTF-8")
	}
}

// asynq cannot store a text that is not UTF-8, and would leave the task as it is.
func TestAnErrorThatIsNotTextArchivesTheTask(t *testing.T) {
	t.Parallel()
	key := func(context.Context, *asynq.Task) (string, error) {
		return "", fmt.Errorf("%w: no item in \xff\xfe", lockmw.ErrInvalidKey)
	}
	q := startQueue(t, quick(), asynqmw.WithLock(lockmw.NewLocal(), key)(never(t)))
	info := q.await(q.fulfil("7", asynq.MaxRetry(3)), asynq.TaskStateArchived)
	if !strings.Contains(info.LastErr, "no item in") {
		t.Errorf("last error %q", info.LastErr)
	}
}
