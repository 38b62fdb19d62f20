package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// contend lets two people order the same item at once, and their orders be shipped: ann holds it and
// bob waits for her, her order's task for him, and his order's task for that one.
func (w *world) contend(ctx context.Context, stdout io.Writer) (code int, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("it takes too long"))
	defer cancel()
	scene := newScene()
	w.items, w.stock = 1, 2
	s, err := w.open(limited, "127.0.0.1:0", scene.conditions(limited))
	if err != nil {
		return 0, err
	}
	failure := s.play(limited, scene)
	cancel()
	if err := s.close(); err != nil { // with the end of the last task
		return 0, err
	}
	switch {
	case ctx.Err() != nil:
		return 0, failure
	case failure != nil:
		_, err := fmt.Fprintf(stdout, "The scene failed: %v\n", failure)
		return exitBroken, err
	}
	return exitOK, reportScene(stdout, w.config, scene.list())
}

// play returns when both orders are shipped.
func (s *sale) play(ctx context.Context, scene *scene) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	order := func(user string) {
		switch id, err := post(ctx, client, s.url, click{user: user, item: itemName(0)}); {
		case err != nil:
			fail(fmt.Errorf("%s's order: %w", user, err))
		case id == 0:
			fail(fmt.Errorf("%s's order was refused", user))
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { order("ann") })
	if await(ctx, scene.held) == nil {
		wg.Go(func() { order("bob") })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.drain(ctx); err != nil {
		return err
	}
	books, err := s.store.audit(ctx, 2)
	if err == nil && (books.shipped != 2 || books.twice > 0) {
		err = fmt.Errorf("%d of 2 orders shipped, %d of them twice", books.shipped, books.twice)
	}
	return err
}

func reportScene(w io.Writer, c config, turns []turn) error {
	var b strings.Builder
	b.WriteString("Two people want item-1 at once, and so do the tasks that ship their orders.\n\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "  who\twaited\tfor\tthen held it\ttrace")
	for _, x := range turns {
		waited := "–"
		if x.contended {
			waited = fmt.Sprintf("%.0f ms", ms(x.waited))
		}
		_, _ = fmt.Fprintf(t, "  %s\t%s\t%s\t%.0f ms\t%s\n",
			x.actor, waited, orDash(x.heldBy), ms(x.held), x.span.TraceID())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	b.WriteString("\nA task goes on in the trace of the request that enqueued it.\n")
	if c.otlp != "" {
		fmt.Fprintf(&b, whereToLook, c.otlp, service)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const whereToLook = `
The spans go to %s. In Jaeger, look up one of the traces, or search for

  service    %s
  operation  acquire_lock item
  tags       distributed_lock.contended=true

Each span that it finds has a link to the acquire_lock span of the one it waited for.
`
