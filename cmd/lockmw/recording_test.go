package main

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

var recordTo = flag.String("record", "", "record lockmw top as an animated SVG, to this `file`")

// The terminal that is recorded.
const (
	recordColumns, recordLines = 100, 19
	recordEvery                = 600 * time.Millisecond
	recordFor                  = 18 * time.Second
)

// TestRecording records a run of lockmw top for docs/command.md:
//
//	go test ./cmd/lockmw -run TestRecording -record ../../docs/top.svg
func TestRecording(t *testing.T) {
	if *recordTo == "" {
		t.Skip("-record names no file")
	}
	shop := openShop(t)
	s := newScreen(t.Context(), &eyes{inspector: shop.inspector, match: func(*lockRecord) bool { return true }, now: time.Now, hide: strings.Clone}, 0, time.Second)
	s.where, s.prefix = "redis.internal:6379", "lockmw"
	s.resize(recordColumns, recordLines)
	messages := make(chan tea.Msg, 100)
	do := func(cmd tea.Cmd) {
		if cmd != nil {
			go func() { messages <- cmd() }()
		}
	}
	script := []struct { // what is pressed, and what happens
		after time.Duration
		do    func()
	}{
		{3 * time.Second, func() { shop.wait(1, "order:10023", "req-9b77") }},
		{4200 * time.Millisecond, func() { shop.wait(2, "order:10023", "task-1913") }},
		{6 * time.Second, func() { press(s, "s") }},
		{8400 * time.Millisecond, func() { press(s, "s") }},
		{11400 * time.Millisecond, func() { press(s, "enter") }},
		{16200 * time.Millisecond, func() { press(s, "esc") }},
	}
	do(s.Init())
	var frames []string
	began, tick := time.Now(), time.NewTicker(recordEvery)
	defer tick.Stop()
	for time.Since(began) < recordFor {
		select {
		case msg := <-messages:
			if all, ok := msg.(tea.BatchMsg); ok {
				for _, cmd := range all {
					do(cmd)
				}
				continue
			}
			do(s.update(shop.renamed(msg)))
		case <-tick.C:
			for len(script) > 0 && time.Since(began) >= script[0].after {
				script[0].do()
				script = script[1:]
			}
			if s.ready {
				frames = append(frames, s.View().Content)
			}
		}
	}
	if err := os.WriteFile(*recordTo, animated(frames), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A shop is processes that hold locks and wait for them.
type shop struct {
	*testing.T
	inspector *lockmw.Inspector
	clients   []*lockmw.Client
	names     []string // what processes are called, and what they are called in the recording
	holds     []*lockmw.Hold
}

func openShop(t *testing.T) *shop {
	t.Helper()
	server := miniredis.RunT(t) // its keys do not expire when its clock jumps
	dial := func() *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: server.Addr()})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	inspector, err := lockmw.NewInspector(dial())
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{T: t, inspector: inspector}
	for i, name := range []string{"web-3:472:c81d03be", "web-1:471:5f0c2a81", "worker-2:310:77e0914a", "billing-1:88:20b6e3fd"} {
		c, err := lockmw.New(dial(), lockmw.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		s.clients = append(s.clients, c)
		s.hold(c, fmt.Sprint("name:", i))
		status, err := inspector.Get(t.Context(), fmt.Sprint("name:", i))
		if err != nil {
			t.Fatal(err)
		}
		s.names = append(s.names, status.Holders[0].Process, name)
		if err := s.holds[i].Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	web3, web1, worker, billing := s.clients[0], s.clients[1], s.clients[2], s.clients[3]
	server.SetTime(time.Now().Add(-(3*time.Hour + 12*time.Minute)))
	s.hold(billing, "lead:billing")
	server.SetTime(time.Now().Add(-26 * time.Minute))
	s.hold(billing, "import:acme", lockmw.WithLabel("task-1874"))
	server.SetTime(time.Now().Add(-48 * time.Second))
	s.hold(web3, "user:42", lockmw.WithLabel("req-9c15"))
	server.SetTime(time.Time{})
	s.hold(rwlock.New(web1).RLocker(), "catalogue:eu", lockmw.WithLabel("req-71be"))
	s.hold(rwlock.New(web3).RLocker(), "catalogue:eu", lockmw.WithLabel("req-c04d"))
	s.hold(semaphore.New(worker, 3), "export:tenant-7", lockmw.WithLabel("task-1902"))
	s.hold(fairlock.New(worker), "invoice:1187", lockmw.WithLabel("task-1911"))
	s.hold(web3, "order:10023", lockmw.WithLabel("req-8f21"))
	s.wait(1, "order:10023", "req-9a02")
	for i, c := range s.clients[:3] {
		go s.sell(c, fmt.Sprintf("req-%04x", 0x9d03+0x1b*i))
	}
	return s
}

func (s *shop) hold(l lockmw.Locker, key string, opts ...lockmw.Option) {
	s.Helper()
	_, hold, err := l.Lock(s.Context(), key, opts...)
	if err != nil {
		s.Fatal(err)
	}
	s.holds = append(s.holds, hold)
}

// wait has a process wait for a key until the test ends.
func (s *shop) wait(process int, key, label string) {
	go func() {
		_, _, _ = s.clients[process].Lock(s.Context(), key, lockmw.WithLabel(label), lockmw.WithWait(time.Hour))
	}()
}

// sell takes and releases one lock until the test ends.
func (s *shop) sell(c *lockmw.Client, label string) {
	for s.Context().Err() == nil {
		if _, hold, err := c.Lock(s.Context(), "stock:8812", lockmw.WithLabel(label)); err == nil {
			pause.For(s.Context(), 700*time.Millisecond)
			_ = hold.Unlock()
		}
	}
}

// renamed calls processes by their names in the recording.
func (s *shop) renamed(msg tea.Msg) tea.Msg {
	var looks []*look
	switch msg := msg.(type) {
	case sightMsg:
		looks = msg.looks
	case queuesMsg:
		looks = msg.looks
	case looksMsg:
		looks = msg.looks
	}
	names := strings.NewReplacer(s.names...)
	for _, l := range looks {
		for i := range l.record.Holders {
			l.record.Holders[i].Process = names.Replace(l.record.Holders[i].Process)
		}
		for i := range l.record.Waiters {
			l.record.Waiters[i].Process = names.Replace(l.record.Waiters[i].Process)
		}
	}
	return msg
}

// All lengths of the SVG are in pixels. Pages show it that wide.
const (
	svgWidth = 840
	svgSide  = 17.0
	svgTop   = 34.0
	svgCell  = 8.06 // a letter of a font of 13.4 px
	svgLine  = 19.0
)

const svgStyle = `
  .page { fill: #0d1117; stroke: #3d444d }
  .bar { fill: #9198a1; font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
  text { font: 13.4px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace; fill: #f0f6fc }
  .bold { font-weight: 700 } .faint { fill: #9198a1 } .cyan { fill: #39c5cf } .red { fill: #ff7b72 }
  .frame { visibility: hidden; animation: show %gs step-end infinite }
  .still { visibility: visible }
  @keyframes show { 0%% { visibility: visible } %.3f%% { visibility: hidden } 100%% { visibility: hidden } }
  @media (prefers-reduced-motion: reduce) { .frame { animation: none } }
`

// animated is an SVG that shows the frames, each for as long as the next one came later. Without animation it shows one of them.
func animated(frames []string) []byte {
	var b bytes.Buffer
	height := svgTop + svgLine*recordLines + 12
	length := (recordEvery * time.Duration(len(frames))).Seconds()
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]g" width="%[1]d" height="%[2]g" role="img">`+"\n", svgWidth, height)
	b.WriteString("<title>A recording of lockmw top</title>\n")
	fmt.Fprintf(&b, "<style>"+svgStyle+"</style>\n", length, 100/float64(len(frames)))
	fmt.Fprintf(&b, `<rect class="page" x="0.5" y="0.5" width="%d" height="%g" rx="8"/>`+"\n", svgWidth-1, height-1)
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="16" r="5" fill="%s"/>`, 20+17*i, colour)
	}
	fmt.Fprintf(&b, `<text class="bar" x="%d" y="20" text-anchor="middle">lockmw top</text>`+"\n", svgWidth/2)
	for i, frame := range frames {
		class := "frame"
		if i == len(frames)/4 {
			class += " still"
		}
		fmt.Fprintf(&b, `<g class="%s" style="animation-delay:%gs">`+"\n", class, (recordEvery*time.Duration(i)).Seconds()-length)
		for n, line := range strings.Split(frame, "\n") {
			writeLine(&b, line, svgTop+svgLine*(float64(n)+0.75))
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

var (
	colourCode = regexp.MustCompile(`^\x1b\[([0-9;]*)m`)
	colours    = map[string]string{"1": "bold", "2": "faint", "36": "cyan", "31": "red"}
	words      = regexp.MustCompile(`\S+( \S+)*`)
)

// writeLine writes one line of a terminal. Each part stands where its column is, whatever the font turns out to be.
func writeLine(b *bytes.Buffer, line string, y float64) {
	var classes []string
	column := 0
	var parts strings.Builder
	for line != "" {
		if code := colourCode.FindStringSubmatch(line); code != nil {
			line = line[len(code[0]):]
			for c := range strings.SplitSeq(code[1], ";") {
				if name := colours[c]; name != "" {
					classes = append(classes, name)
				} else {
					classes = nil
				}
			}
			continue
		}
		text, _, _ := strings.Cut(line, "\x1b")
		line = line[len(text):]
		for _, at := range words.FindAllStringIndex(text, -1) {
			word := text[at[0]:at[1]]
			x := svgSide + svgCell*float64(column+lipgloss.Width(text[:at[0]]))
			class := ""
			if len(classes) > 0 {
				class = fmt.Sprintf(" class=%q", strings.Join(slices.Compact(classes), " "))
			}
			fmt.Fprintf(&parts, `<tspan x="%.1f" textLength="%.1f"%s>`, x, svgCell*float64(lipgloss.Width(word)), class)
			_ = xml.EscapeText(&parts, []byte(word)) // a Builder does not fail
			parts.WriteString("</tspan>")
		}
		column += lipgloss.Width(text)
	}
	if parts.Len() > 0 {
		fmt.Fprintf(b, `<text y="%g">%s</text>`+"\n", y, parts.String())
	}
}
