package inspector

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A piece is a part of a text: either printable text, or the escape of an invisible character.
type piece struct {
	Text    string
	Escaped bool
}

// pieces splits a text and escapes everything invisible: control characters, marks that change the direction of writing, and bytes that
// are not UTF-8.
func pieces(s string) (all []piece) {
	begun := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) {
			if begun < i {
				all = append(all, piece{Text: s[begun:i]})
			}
			all = append(all, piece{strings.Trim(strconv.Quote(s[i:i+size]), `"`), true})
			begun = i + size
		}
		i += size
	}
	if begun < len(s) {
		all = append(all, piece{Text: s[begun:]})
	}
	return all
}

// plain returns a text with the escapes of pieces.
func plain(s string) string {
	var b strings.Builder
	for _, p := range pieces(s) {
		b.WriteString(p.Text)
	}
	return b.String()
}

// id returns what identifies an element for the script: printable ASCII, which differs if any part differs.
func id(parts ...any) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(url.QueryEscape(fmt.Sprint(p)))
		b.WriteByte(' ')
	}
	return b.String()
}

// A millis is a duration in milliseconds.
type millis int64

func millisOf(d time.Duration) millis { return millis(max(d, 0).Milliseconds()) }

// Number is the value from which the script counts.
func (m millis) Number() int64 { return int64(m) }

// String formats the duration for people. The script uses the same format.
func (m millis) String() string {
	s := int64(m) / 1000
	switch {
	case m < 1000:
		return fmt.Sprintf("%d ms", int64(m))
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 24*3600:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	}
	return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
}

// A size is a number of bytes.
type size int64

// String formats the size for people.
func (s size) String() string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	x, u := float64(s), 0
	for x >= 1024 && u < len(units)-1 {
		x, u = x/1024, u+1
	}
	if u == 0 {
		return fmt.Sprintf("%d B", int64(s))
	}
	return fmt.Sprintf("%.1f %s", x, units[u])
}
