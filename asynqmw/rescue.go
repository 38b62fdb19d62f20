package asynqmw

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/lockmw"
)

// rescuedHeader is a header of the copy of a task. Its value, such as "2-K7QXABCD", is how often the task was put back, and random
// letters that make the copy's ID unique. The copy's ID is the ID of the first task, '~' and the value.
const rescuedHeader = "lockmw-rescued"

// newMark returns a value for the header.
func newMark(requeued int) string { return strconv.Itoa(requeued) + "-" + rand.Text()[:8] }

var mark = regexp.MustCompile(`^([1-9][0-9]{0,8})-[A-Z2-7]{8}$`)

// origin returns the ID of the task that id is a copy of, directly or through other copies, and how often that task was put back.
// It returns id and 0 if id is not a copy. Only a mark in the format of newMark counts.
func origin(id string, headers map[string]string) (string, int) {
	header := headers[rescuedHeader]
	found := mark.FindStringSubmatch(header)
	first, isCopy := strings.CutSuffix(id, "~"+header)
	if found == nil || !isCopy || first == "" {
		return id, 0
	}
	n, _ := strconv.Atoi(found[1])
	return first, n
}

// checkOrigin keeps a task from using the place and the count of another one, because the producer of a task chooses its ID and
// headers. A copy replaces its task, which is deleted. So a task that still exists in the queue has no copy. If the queue is not
// accessible, only the mark is checked.
func (g *guard) checkOrigin(a *attempt, typename string) {
	if a.origin == a.id || g.stateOf(a, a.origin) == "" {
		return
	}
	if missed, ok := g.forged.Allow("copy"); ok {
		g.logger().WarnContext(a.ctx, "asynqmw: a task claims to be a copy of a task that still exists, and is not treated as a copy", "type", typename, "queue", a.queue, "task", a.id, "suppressed", missed)
	}
	a.origin, a.requeued = a.id, 0
}

// A rescue enqueues a copy of a task that asynq would archive: it is on its last attempt and cannot be set aside.
type rescue struct {
	client *asynq.Client
	opts   []asynq.Option
}

// checkForCopy refuses options with which a copy could not be enqueued or run.
func checkForCopy(o asynq.Option) error {
	if o == nil {
		return fmt.Errorf("%w: WithRescue with an option that is nil", lockmw.ErrInvalidOption)
	}
	text, _ := o.Value().(string)
	span, _ := o.Value().(time.Duration)
	at, _ := o.Value().(time.Time)
	why := ""
	switch t := o.Type(); {
	case t == asynq.TaskIDOpt || t == asynq.UniqueOpt:
		why = "asynqmw chooses the copy's ID, and a copy is not unique"
	case (t == asynq.QueueOpt || t == asynq.GroupOpt) && strings.TrimSpace(text) == "":
		why = "it has no name"
	case t == asynq.TimeoutOpt && span != 0 && span < time.Second:
		why = "must be 0 or from 1s"
	case t == asynq.DeadlineOpt && !at.After(time.Now()):
		why = "it has passed"
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: WithRescue with %v: %s", lockmw.ErrInvalidOption, o, why)
}

// copyOf enqueues the copy and returns its ID.
func (r *rescue) copyOf(a *attempt, task *asynq.Task, delay time.Duration) (string, error) {
	value := newMark(a.requeued + 1)
	headers := make(map[string]string)
	maps.Copy(headers, task.Headers())
	headers[rescuedHeader] = value
	id := a.origin + "~" + value
	opts := []asynq.Option{asynq.TaskID(id), asynq.Queue(a.queue), asynq.MaxRetry(0), asynq.ProcessIn(delay)}
	if a.limited {
		opts = append(opts, asynq.Timeout(max(a.deadline.Sub(a.began).Round(time.Second), time.Second)))
	}
	opts = append(opts, r.opts...)
	_, err := r.client.EnqueueContext(a.ctx, asynq.NewTaskWithHeaders(task.Type(), task.Payload(), headers), opts...)
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) { // a conflict: the client has resent the command
		return "", fmt.Errorf("the copy could not be enqueued: %w", err)
	}
	return id, nil
}
