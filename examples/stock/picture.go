package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockmw/go/examples/stock/internal/report"
)

// A picture is a file that appears only once it is complete. Creating it early detects errors before the first way runs.
type picture struct {
	path string
	file *os.File // nil without -svg, and after save
}

func newPicture(path string) (*picture, error) {
	p := &picture{path: path}
	if path == "" {
		return p, nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("-svg: %s is a folder", path)
	}
	var err error
	if p.file, err = os.CreateTemp(filepath.Dir(path), ".stock-*.svg"); err != nil {
		return nil, fmt.Errorf("-svg: %w", err)
	}
	return p, nil
}

func (p *picture) save(r *report.Report) error {
	if p.file == nil {
		return nil
	}
	const readable = 0o644
	if err := errors.Join(r.Draw(p.file), p.file.Chmod(readable), p.file.Close()); err != nil {
		return err
	}
	if err := os.Rename(p.file.Name(), p.path); err != nil {
		return err
	}
	p.file = nil
	return nil
}

// discard removes an unsaved file.
func (p *picture) discard() {
	if p.file != nil {
		_ = p.file.Close() // may be closed already
		_ = os.Remove(p.file.Name())
	}
}
