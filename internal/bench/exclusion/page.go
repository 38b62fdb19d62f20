// Package exclusion checks that nobody holds a lock together with somebody else. It does so in memory
// that the processes of a measurement share, at the cost of two atomic operations for each
// acquisition.
package exclusion

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/edsrzf/mmap-go"
)

// cellSize keeps cells on cache lines of their own.
const cellSize = 64

// A Page has one cell for each key of a measurement. Safe for concurrent use, also by several
// processes that opened the same file.
type Page struct {
	memory     mmap.MMap
	violations atomic.Int64
}

// Create makes the file of a page for n keys.
func Create(path string, n int) error {
	if err := os.WriteFile(path, make([]byte, n*cellSize), 0o600); err != nil {
		return fmt.Errorf("making the memory to check exclusion with: %w", err)
	}
	return nil
}

// Open maps the file that Create made.
func Open(path string) (*Page, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // the path is the benchmark's own
	if err != nil {
		return nil, err
	}
	defer f.Close()
	memory, err := mmap.Map(f, mmap.RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("sharing the memory to check exclusion with: %w", err)
	}
	return &Page{memory: memory}, nil
}

// Close unmaps the page.
func (p *Page) Close() error { return p.memory.Unmap() }

func (p *Page) cell(key int) *atomic.Int32 {
	b := p.memory[key*cellSize : (key+1)*cellSize]
	return (*atomic.Int32)(unsafe.Pointer(&b[0])) //nolint:gosec // a mapping begins at a page, and a cell has its size
}

// Enter notes that the lock of key is held. Call Leave before it is released.
func (p *Page) Enter(key int) {
	if p.cell(key).Add(1) != 1 {
		p.violations.Add(1)
	}
}

// Leave notes that the lock of key is held no more.
func (p *Page) Leave(key int) { p.cell(key).Add(-1) }

// Violations returns how often this process entered while somebody was in.
func (p *Page) Violations() int64 { return p.violations.Load() }
