package scene

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/lockmw/go/examples/orders/internal/figures"
	"github.com/lockmw/go/examples/orders/internal/telemetry"
)

// Report prints the turns, and how to find their spans if they went to the collector at otlp.
func Report(w io.Writer, otlp string, turns []Turn) error {
	var b strings.Builder
	b.WriteString("Two users want item-1 at the same time, and so do the tasks that ship their orders.\n\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "  who\twaited\tfor\tthen held it\ttrace")
	for _, x := range turns {
		waited := "–"
		if x.Contended {
			waited = fmt.Sprintf("%.0f ms", figures.Milliseconds(x.Waited))
		}
		_, _ = fmt.Fprintf(t, "  %s\t%s\t%s\t%.0f ms\t%s\n",
			x.Actor, waited, figures.OrDash(x.HeldBy), figures.Milliseconds(x.Held), x.Span.TraceID())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	b.WriteString("\nA task continues the trace of the request that enqueued it.\n")
	if otlp != "" {
		fmt.Fprintf(&b, whereToLook, otlp, telemetry.Service)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const whereToLook = `
The spans go to %s. In Jaeger, look up one of the traces, or search for

  service    %s
  operation  acquire_lock item
  tags       distributed_lock.contended=true

Each of these spans has a link to the acquire_lock span of the holder that it waited for.
`
