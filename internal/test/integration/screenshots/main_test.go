package main

import (
	"bytes"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/lockmw/go/internal/test/integration/browser"
	"github.com/lockmw/go/internal/test/leak"
)

func TestMain(m *testing.M) { leak.VerifyMain(m.Run) }

func TestThePicturesOfThePage(t *testing.T) {
	dir := t.TempDir()
	err := run(t.Context(), []string{"-o", dir, "-wait", "0"}, t.Output())
	switch {
	case errors.Is(err, browser.ErrNotInstalled) && os.Getenv("LOCKMW_REQUIRE_BROWSER") != "1":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	for _, s := range shots {
		for _, dir := range []string{dir, "../../../../docs"} {
			file, err := os.ReadFile(filepath.Join(dir, s.file))
			if err != nil {
				t.Fatal(err)
			}
			picture, err := png.Decode(bytes.NewReader(file))
			if err != nil {
				t.Fatalf("%s: %v", s.file, err)
			}
			if size := picture.Bounds().Size(); int64(size.X) != s.window.Width || int64(size.Y) != s.window.Height || len(file) > 150_000 {
				t.Errorf("%s in %s has %v, %d bytes", s.file, dir, size, len(file))
			}
		}
	}
}

func TestArguments(t *testing.T) {
	if err := run(t.Context(), []string{"-x"}, io.Discard); err == nil {
		t.Error("-x is accepted")
	}
}
