// Package statusline shows the progress of a program.
package statusline

import (
	"fmt"
	"io"
	"os"
	"time"
)

// Show updates one line of a terminal until the returned function is called. Without a
// terminal it writes a new line every two seconds.
func Show(w io.Writer, line func() string) (stop func()) {
	every, before, after := 2*time.Second, "", "\n"
	if isTerminal(w) {
		every, before, after = 100*time.Millisecond, "\r\x1b[K", ""
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_, _ = fmt.Fprint(w, before, line(), after)
			case <-quit:
				_, _ = fmt.Fprint(w, before, line(), "\n")
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
