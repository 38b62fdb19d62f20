package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/vg/vgsvg"
)

// A picture is a file that appears only once it is complete.
type picture struct {
	path string
	file *os.File // temporary file in the same folder, renamed at the end
}

// openPicture checks that a file can be created at path. Without a path it returns nil.
func openPicture(path string) (*picture, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("-svg: %s is not a regular file", path)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return nil, fmt.Errorf("-svg: %w", err)
	}
	return &picture{path, file}, nil
}

// write draws the figures and renames the file.
func (p *picture) write(r *report) error {
	if p == nil {
		return nil
	}
	canvas := vgsvg.New(r.size())
	if err := r.draw(canvas); err != nil {
		return fmt.Errorf("-svg: %w", err)
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return fmt.Errorf("-svg: %w", err)
	}
	// Few machines have the font of the layout. These fonts have letters of the same width.
	fonts := strings.ReplaceAll(svg.String(), "font-family:Liberation Sans;", "font-family:Liberation Sans,Arial,Helvetica,sans-serif;")
	_, err := p.file.WriteString(fonts)
	const everybodyMayRead = 0o644
	if err := errors.Join(err, p.file.Chmod(everybodyMayRead), p.file.Close()); err != nil {
		return fmt.Errorf("-svg: %w", err)
	}
	if err := os.Rename(p.file.Name(), p.path); err != nil {
		return fmt.Errorf("-svg: %w", err)
	}
	p.file = nil
	return nil
}

// discard removes an incomplete file.
func (p *picture) discard() error {
	if p == nil || p.file == nil {
		return nil
	}
	_ = p.file.Close() // may be closed already
	return os.Remove(p.file.Name())
}
