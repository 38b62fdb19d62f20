package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// A picture is a file that there is not before it is whole.
type picture struct {
	path string
	file *os.File // another one beside it, until it is renamed
}

// openPicture finds out whether there can be a file at path. Without a path there is no picture, which is nil.
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

// write draws the figures and puts the file where it is to be.
func (p *picture) write(r *report) error {
	if p == nil {
		return nil
	}
	var svg bytes.Buffer
	if err := r.draw(&svg); err != nil {
		return fmt.Errorf("-svg: %w", err)
	}
	_, err := svg.WriteTo(p.file)
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

// discard removes what was not written to its end.
func (p *picture) discard() error {
	if p == nil || p.file == nil {
		return nil
	}
	_ = p.file.Close() // it may be closed
	return os.Remove(p.file.Name())
}
