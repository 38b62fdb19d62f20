package main

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/table"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

var (
	titleStyle = lipgloss.NewStyle().Bold(true)
	errorStyle = lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true)
	faintStyle = lipgloss.NewStyle().Faint(true)
)

func tableStyles() table.Styles {
	cell := lipgloss.NewStyle().PaddingRight(1)
	return table.Styles{Header: cell.Bold(true), Cell: cell, Selected: lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Cyan)}
}

// View implements tea.Model.
func (s *screen) View() tea.View {
	v := tea.NewView(s.text())
	v.AltScreen = true
	return v
}

// text is the whole screen.
func (s *screen) text() string {
	body, help := s.table.View(), "↑↓ select  enter open  s sort  / filter  p pause  q quit"
	switch {
	case s.open != "":
		body, help = s.page.View(), "↑↓ scroll  esc back  p pause  q quit"
	case s.typing:
		help = "enter keep  esc no filter"
	case len(s.shown) == 0:
		body = s.table.View() + "\n" // its header
	}
	body = lipgloss.NewStyle().MaxWidth(s.width).Height(s.height - 4).MaxHeight(s.height - 4).Render(body)
	lines := []string{titleStyle.Render(s.title()), s.summary(), s.trouble(), body, faintStyle.Render(help)}
	for i, line := range lines {
		lines[i] = lipgloss.NewStyle().MaxWidth(s.width).Render(line)
	}
	return strings.Join(lines, "\n")
}

func (s *screen) title() string {
	left := fmt.Sprintf("lockmw top  %s  prefix %s", clean(s.where), clean(s.prefix))
	right := time.Now().Format(time.TimeOnly)
	return left + strings.Repeat(" ", max(s.width-lipgloss.Width(left)-lipgloss.Width(right), 1)) + right
}

func (s *screen) summary() string {
	longest := s.sight.longest
	for _, r := range s.shown { // some are newer than the scan
		longest = max(longest, r.longest())
	}
	text := fmt.Sprintf("%s held, %d waiting, longest wait %s", count(s.sight.held, "key"), s.sight.waiting, ago(longest))
	if longest < 0 {
		text = fmt.Sprintf("%s held, %d waiting", count(s.sight.held, "key"), s.sight.waiting)
	}
	if !s.ready {
		text += " so far"
	}
	text += "  ·  sorted by " + topOrders[s.sort].name
	if filter := s.input.Value(); filter != "" && !s.typing {
		text += "  ·  filter " + clean(filter)
	}
	if s.paused {
		text += "  ·  paused"
	}
	return text
}

// trouble is the line for errors, progress and the filter input.
func (s *screen) trouble() string {
	switch part := float64(s.eyes.part.Load()) / 10; {
	case s.typing:
		return s.input.View()
	case s.err != nil:
		text := s.err.Error()
		if _, why, found := strings.Cut(text, "unavailable: "); found {
			text = why
		}
		return errorStyle.Render(fmt.Sprintf("no answer for %s: %s", ago(time.Since(s.since).Seconds()), clean(s.hide(text))))
	case !s.ready, !s.scanned.IsZero() && time.Since(s.scanned) > time.Second:
		return faintStyle.Render(fmt.Sprintf("reading, %.0f %% of the keys", part))
	case len(s.shown) == 0 && len(s.looks) > 0:
		return faintStyle.Render("no key matches the filter")
	case len(s.shown) == 0:
		return faintStyle.Render("no locks are held")
	}
	return ""
}

// detail is the page about the open key.
func (s *screen) detail() string {
	var b strings.Builder
	l := s.looks[s.open]
	if l == nil {
		return string(say("%s: neither held nor waited for", s.open))
	}
	printLock(&b, &l.record)
	if key, ok := shellArgument(s.open); ok && len(l.record.Holders) > 0 {
		arguments := key + " --holder ID"
		if strings.HasPrefix(key, "-") {
			arguments = "--holder ID -- " + key
		}
		printf(&b, "\n  To release it: lockmw unlock %s\n", arguments)
	}
	for i, e := range s.happened {
		if i == 0 {
			printf(&b, "\n  recent events\n")
		}
		printf(&b, "%s\n", e.line("  "+time.TimeOnly, s.width))
	}
	return b.String()
}
