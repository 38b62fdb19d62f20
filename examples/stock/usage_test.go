package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockmw/go/examples/stock/internal/ways"
)

func TestInvalidSettingsAreReportedInOneLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args string
		says string
	}{
		{"-user 5", "-user"},
		{"-users 0", "-users is 0"},
		{"-users many", "many"},
		{"-clicks 101", "-clicks is 101"},
		{"-items -1", "-items is -1"},
		{"-stock 0", "-stock is 0"},
		{"-at-once 0", "-at-once is 0"},
		{"-payment -1s", "-payment is -1s"},
		{"-seed x", "x"},
		{"-ways nonsense", `unknown way "nonsense"`},
		{"-ways none,", `unknown way ""`},
		{"now", `"now"`},
		{"-redis localhost", `-redis is "localhost"`},
		{"-db oracle://localhost/shop", `unknown database "oracle"`},
		{"-db shop", `unknown database "shop"`},
		{"-db mysql://localhost", "mysql://user:password@host:port/database"},
		{"-db mysql://u:secret@localhost:x/shop", "invalid port"},
		{"-db mysql://localhost/shop?parseTime=1", `"parseTime"`},
		{"-db postgres://localhost:x/shop", "port"},
		{"-redis " + nobody, "no redis at " + nobody},
		{"-db postgres://shop:secret@" + nobody + "/shop", "no PostgreSQL answers"},
		{"-db mysql://shop:secret@" + nobody + "/shop", "no MariaDB or MySQL answers"},
		{"-db sqlite:" + filepath.Join(dir, "no", "such.db"), "no SQLite answers"},
		{"-svg " + filepath.Join(dir, "no", "such.svg"), "-svg: "},
		{"-svg " + dir, "is a folder"},
		{"-svg " + filepath.Join(dir, "stock.svg") + " -redis " + nobody, "no redis"},
	} {
		t.Run(c.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr); code != exitUsage {
				t.Errorf("exit status %d, want %d", code, exitUsage)
			}
			line := stderr.String()
			if strings.Count(line, "\n") != 1 || !strings.HasPrefix(line, "stock: ") || !strings.Contains(line, c.says) {
				t.Errorf("stderr is %q, want one line about %q", line, c.says)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			if strings.Contains(line, "secret") || stdout.Len() > 0 {
				t.Errorf("stdout %q, stderr %q", &stdout, line)
			}
		})
	}
}

func TestUsageNamesAllWays(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, io.Discard, &stderr); code != exitOK {
		t.Errorf("exit status %d, want %d", code, exitOK)
	}
	for _, way := range ways.All() {
		if !strings.Contains(stderr.String(), "  "+way.Name+" ") {
			t.Errorf("%s is not in the usage", way.Name)
		}
	}
}

func TestThePictureShowsTheWaysThatWereRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stock.svg")
	runWays(t, "-ways", "none,sql-condition", "-svg", path)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var words []string
	decoder := xml.NewDecoder(f)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := token.(xml.CharData); ok {
			words = append(words, strings.TrimSpace(string(text)))
		}
	}
	said := strings.Join(words, "\n")
	for _, want := range []string{"none", "sql-condition", "oversold", "16 people, 3 clicks each, 4 in stock; SQLite, embedded Redis"} {
		if !strings.Contains(said, want) {
			t.Errorf("the picture lacks %q:\n%s", want, said)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("files next to the picture: %v, %v", left, err)
	}
}
