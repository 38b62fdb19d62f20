package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// clean makes text that others have chosen harmless in a terminal.
func clean(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// short is clean text that is cut off after so many characters.
func short(text string, most int) string {
	text = clean(text)
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// ago writes seconds as a person says them: 0.4s, 12s, 3m20s, 2h5m, 3d4h.
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

// who names a holder or waiter: what it works for, and its process.
func who(label, process string) string {
	if label == "" {
		return process
	}
	return label + " @ " + process
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprint(n, " ", noun, "s")
}
