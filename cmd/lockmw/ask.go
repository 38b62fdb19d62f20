package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/term"
)

// ask prints a question and waits for the answer. It returns nil for yes; otherwise the error says what did not happen. Without
// a terminal it refuses.
func (c *command) ask(ctx context.Context, otherwise string, question func(io.Writer)) error {
	if f, ok := c.io.in.(*os.File); ok && !term.IsTerminal(f.Fd()) {
		return usage("standard input is not a terminal: confirm with --yes")
	}
	out := c.forOperator()
	question(out)
	notConfirmed := &statusError{statusUnconfirmed, say("not confirmed: %s", safe(otherwise))}
	if out.Flush() != nil {
		return notConfirmed // nobody saw the question
	}
	line, ok := c.readLine(ctx)
	if !ok {
		printf(c.io.err, "\n")
	}
	if line = strings.ToLower(line); line == "yes" || line == "y" {
		return nil
	}
	return notConfirmed
}

// forOperator returns the output for questions and progress: with --json, standard output is for a program.
func (c *command) forOperator() *bufio.Writer {
	if c.json {
		return bufio.NewWriter(c.io.err)
	}
	return c.out
}

// readLine reads a line of the input, without spaces around it. It returns false when ctx ends first.
func (c *command) readLine(ctx context.Context) (string, bool) {
	if c.input == nil {
		c.input = bufio.NewReader(c.io.in)
	}
	lines := make(chan string, 1)
	go func() { // without an answer it ends with the process
		line, _ := c.input.ReadString('\n')
		lines <- strings.TrimSpace(line)
	}()
	select {
	case line := <-lines:
		return line, true
	case <-ctx.Done():
		return "", false
	}
}
