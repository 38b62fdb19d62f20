package locktest

import (
	"slices"
	"time"

	"github.com/lockmw/go/lockmw"
)

var inspected = []scenario{
	{"an inspector shows readers, writers and who waits in its order", inspectsBothSides, twoSided | server | shares | sample},
	{"an inspector takes one reader's hold away and leaves the others", forcesOneReader, twoSided | server | shares},
	{"an inspector's taking the writer's hold away lets in the readers that wait", forcesWriter, twoSided | server | shares | sample},
}

// queueModes are the modes of those who wait, in the order of the queue.
func queueModes(s lockmw.Status) (modes []string) {
	for _, w := range s.Waiters {
		modes = append(modes, w.Mode)
	}
	return modes
}

func inspectsBothSides(e *env) {
	clients, key := e.clients(3), e.key("item")
	first, next := e.read(clients[0], key), e.read(clients[1], key)
	waiting := []*waiter{
		e.wait(clients[2].rw, key), e.behind(clients[0], key), e.wait(clients[1].rw, key), e.behind(clients[2], key),
	}
	status := e.status(key)
	if status.Mode != readMode || len(status.Holders) != 2 {
		e.t.Errorf("two readers are shown as %q: %+v", status.Mode, status.Holders)
	}
	for _, h := range status.Holders {
		if h.Token != first.Token() || h.Owner == "" || h.Process == "" || h.Since.IsZero() || h.TTL <= 0 {
			e.t.Errorf("a reader of token %d is shown as %+v", first.Token(), h)
		}
	}
	if got, want := queueModes(status), []string{"write", "read", "write", "read"}; !slices.Equal(got, want) {
		e.t.Errorf("in the queue are %q, want %q", got, want)
	}
	e.release(first, next)
	_, writer := waiting[0].gets(e.soon)
	status = e.status(key)
	if status.Mode != "write" || len(status.Holders) != 1 || status.Holders[0].Token != writer.Token() {
		e.t.Errorf("a writer of token %d is shown as %q: %+v", writer.Token(), status.Mode, status.Holders)
	}
	if got, want := queueModes(status), []string{"read", "write", "read"}; !slices.Equal(got, want) {
		e.t.Errorf("in the queue are %q, want %q", got, want)
	}
	e.release(writer)
	e.release(e.together([]*waiter{waiting[1], waiting[3]})...)
	e.unlock(waiting[2].gets(e.soon))
	if status = e.status(key); status.Mode != "" || len(status.Holders) > 0 || len(status.Waiters) > 0 {
		e.t.Errorf("a free lock is shown as %+v", status)
	}
}

// briefLease is one whose holder soon notices that it was taken away.
const briefLease = 900 * time.Millisecond

// force takes a hold away.
func (e *env) force(key string, h lockmw.Holder) {
	e.t.Helper()
	inspector, err := lockmw.NewInspector(e.admin, lockmw.WithPrefix(e.prefix))
	if err != nil {
		e.t.Fatal(err)
	}
	e.rec.Forfeit()
	if err := inspector.ForceUnlock(e.ctx, key, h); err != nil {
		e.t.Errorf("ForceUnlock: %v", err)
	}
	e.is("ForceUnlock once more", inspector.ForceUnlock(e.ctx, key, h), lockmw.ErrNotHeld)
}

func forcesOneReader(e *env) {
	clients, key := e.clients(2), e.key("item")
	first := e.read(clients[0], key, lockmw.WithLease(briefLease))
	process := e.status(key).Holders[0].Process
	next := e.read(clients[1], key)
	w := e.wait(clients[1].rw, key)
	i := slices.IndexFunc(e.status(key).Holders, func(h lockmw.Holder) bool { return h.Process == process })
	if i < 0 {
		e.t.Fatal("the first reader is not shown")
	}
	e.force(key, e.status(key).Holders[i])
	e.lost(first.ctx, first)
	w.isWaiting()
	e.alive(next)
	e.release(next)
	e.unlock(w.gets(e.soon))
}

func forcesWriter(e *env) {
	clients, key := e.clients(2), e.key("item")
	writer := e.write(clients[0], key, lockmw.WithLease(briefLease))
	readers := []*waiter{e.wait(clients[0].reader(), key), e.wait(clients[1].reader(), key)}
	w := e.wait(clients[1].rw, key)
	e.force(key, e.status(key).Holders[0])
	e.lost(writer.ctx, writer)
	holds := e.together(readers)
	w.isWaiting()
	e.release(holds...)
	e.unlock(w.gets(e.soon))
}
