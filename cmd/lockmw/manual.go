package main

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A manual is the source of a man page, in the macros of man(7). It has the texts that --help prints.
type manual struct{ bytes.Buffer }

// writeManual writes one page about the program and all its commands.
func writeManual(w io.Writer, root *cobra.Command) error {
	var m manual
	m.line(`.TH LOCKMW 1 "" "` + escape(versionText()) + `" "User Commands"`)
	m.line(".SH NAME")
	m.line("lockmw " + `\- ` + escape(root.Short))
	m.line(".SH SYNOPSIS")
	m.line(".B lockmw")
	m.line(escape("COMMAND [flags]"))
	m.line(".SH DESCRIPTION")
	m.text(root.Long)
	m.line(".SH COMMANDS")
	for _, sub := range root.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			m.command(sub)
		}
	}
	m.line(".SH GLOBAL FLAGS")
	m.flags(root.PersistentFlags())
	_, err := m.WriteTo(w)
	return err
}

func (m *manual) line(text string) { printf(m, "%s\n", safe(text)) }

func (m *manual) command(cmd *cobra.Command) {
	m.line(`.SS "` + escape(cmd.UseLine()) + `"`)
	m.text(cmp.Or(cmd.Long, cmd.Short+"."))
	m.flags(cmd.LocalNonPersistentFlags())
	if cmd.Example != "" {
		m.line(".PP")
		m.line("Examples:")
		m.text(cmd.Example)
	}
}

// text adds paragraphs, which empty lines separate. Indented lines stay as they are.
func (m *manual) text(text string) {
	literal := false
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		indented := line != "" && (line[0] == ' ' || line[0] == '\t')
		switch {
		case indented && !literal:
			m.line(".PP\n.nf\n.RS")
		case !indented && literal:
			m.line(".RE\n.fi\n.PP")
		}
		literal = indented
		switch {
		case line != "":
			m.line(escape(strings.TrimSpace(line)))
		case !literal:
			m.line(".PP")
		}
	}
	if literal {
		m.line(".RE\n.fi")
	}
}

func (m *manual) flags(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, text := pflag.UnquoteUsage(f)
		m.line(".TP")
		if value != "" {
			value = ` \fI` + escape(value) + `\fR`
		}
		m.line(`\fB` + escape("--"+f.Name) + `\fR` + value)
		if !slices.Contains([]string{"", "false", "[]", "0", "0s"}, f.DefValue) {
			text += " (default " + f.DefValue + ")"
		}
		m.line(escape(text))
	})
}

// escape protects a line of text from troff, which gives a meaning to backslashes, hyphens, and a dot or an apostrophe in front.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
