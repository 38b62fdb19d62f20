package main

import (
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// A safe text cannot control the terminal: any part that came from outside has gone through clean.
type safe string

// say formats a text for a terminal. It makes every text argument harmless; a safe argument stays as it is.
func say(format string, args ...any) safe {
	for i, arg := range args {
		switch v := arg.(type) {
		case safe:
			args[i] = string(v)
		case error:
			args[i] = clean(v.Error())
		case fmt.Stringer:
			args[i] = clean(v.String())
		default:
			switch reflect.ValueOf(arg).Kind() {
			case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
			default:
				args[i] = clean(fmt.Sprint(arg))
			}
		}
	}
	return safe(fmt.Sprintf(format, args...))
}

// printf formats with say and prints. All output for people goes through it. It returns no error: standard output is buffered, and
// its Flush returns the first error.
func printf(out io.Writer, format string, args ...any) {
	_, _ = io.WriteString(out, string(say(format, args...)))
}

// paragraph makes an error text of several lines harmless and indents all but the first.
func paragraph(text string) safe {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = clean(line)
	}
	return safe(strings.Join(lines, "\n  "))
}

// clean escapes the characters of a text that could control a terminal.
func clean(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// shellArgument writes text as one argument of a POSIX shell, for a command that an operator may copy. It reports false if text has
// invisible characters: such a command would not do what it seems to do.
func shellArgument(text string) (argument string, ok bool) {
	if clean(text) != text {
		return "", false
	}
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-.:/@%+,", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text, true
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'", true
}

// asArgument is shellArgument of the text in its printed form. A shell that gets a copy runs nothing else; if characters were
// escaped, the copy names no key.
func asArgument(text string) string {
	argument, _ := shellArgument(clean(text))
	return argument
}

// short cleans a text and cuts it off after most characters.
func short(text string, most int) string {
	text = clean(text)
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// hanging joins a head and parts to a line. On a terminal of this width, a part that does not fit begins a new line, indented to the
// first part. Width 0 means no terminal.
func hanging(head safe, parts []string, width int) safe {
	used := ansi.StringWidth(string(head))
	indent := used
	if indent > width/2 {
		indent = 4
	}
	if width == 0 {
		width = math.MaxInt
	}
	cleaned := make([]string, len(parts))
	for i, part := range parts {
		cleaned[i] = clean(part)
	}
	return head + safe(flow(cleaned, "  ", width, indent, used))
}

// flow joins parts by a separator. A part that does not fit into the width of a line begins a new one, which is indented. used is
// what the first line has already.
func flow(parts []string, separator string, width, indent, used int) string {
	var b strings.Builder
	for i, part := range parts {
		n := ansi.StringWidth(part)
		switch {
		case i == 0:
		case used+len(separator)+n > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = indent
		default:
			b.WriteString(separator)
			used += len(separator)
		}
		b.WriteString(part)
		used += n
	}
	return b.String()
}

// ago formats seconds for people: 0.4s, 12s, 3m20s, 2h05m, 3d04h.
func ago(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case s < 0:
		return "-"
	case d > 100*365*24*time.Hour:
		return "ever"
	case d < 10*time.Second:
		return strconv.FormatFloat(s, 'f', 1, 64) + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// shortly formats a duration without zero parts: 2m, 1m30s.
func shortly(d time.Duration) string {
	text := d.Round(time.Millisecond).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// who names a holder or waiter by its label and process.
func who(label, process string) string {
	if label == "" {
		return process
	}
	return label + " @ " + process
}

// count formats a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprint(n, " ", noun, "s")
}
