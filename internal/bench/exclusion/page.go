// Package exclusion checks that holds of a lock exclude one another. It counts them in memory that the processes of a
// measurement share, which costs two atomic operations for each acquisition.
package exclusion

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/edsrzf/mmap-go"
)

// cellSize keeps cells on cache lines of their own.
const cellSize = 64

// A Page has one cell for each key of a measurement. It is safe for concurrent use, also by several processes that have opened
// the same file.
type Page struct {
	memory     mmap.MMap
	violations atomic.Int64
}

// A cell is the state of one key.
type cell struct {
	inside atomic.Int64 // 1 for each reader, alone for each exclusive hold
	turns  atomic.Int64
	last   atomic.Int64 // time of the last turn, in nanoseconds
	whose  atomic.Int64 // process of the last turn
}

// alone is greater than the number of readers.
const alone = 1 << 32

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

func (p *Page) cell(key int) *cell {
	b := p.memory[key*cellSize : (key+1)*cellSize]
	return (*cell)(unsafe.Pointer(&b[0])) //nolint:gosec // a mapping begins at a page, and a cell has its size
}

// Enter records that the lock of key is held. Call Leave before it is released.
func (p *Page) Enter(key int) {
	if p.cell(key).inside.Add(alone) != alone {
		p.violations.Add(1)
	}
}

// Leave records that the lock of key is no longer held.
func (p *Page) Leave(key int) { p.cell(key).inside.Add(-alone) }

// EnterShared records that the lock of key is held for reading, perhaps by several readers. Call LeaveShared before it is
// released.
func (p *Page) EnterShared(key int) {
	if p.cell(key).inside.Add(1) >= alone {
		p.violations.Add(1)
	}
}

// LeaveShared records that the lock of key has one reader less.
func (p *Page) LeaveShared(key int) { p.cell(key).inside.Add(-1) }

// Turn records a turn of a process with the lock of key. It returns the time since the last turn, by the machine's wall clock,
// and whether that was in another process. Call it between Enter and Leave.
func (p *Page) Turn(key, process int) (since time.Duration, other bool) {
	c := p.cell(key)
	now := time.Now().UnixNano()
	since = time.Duration(now - c.last.Swap(now))
	other = c.whose.Swap(int64(process)) != int64(process)
	c.turns.Add(1)
	return since, other
}

// Turns returns the number of turns with the lock of key.
func (p *Page) Turns(key int) int64 { return p.cell(key).turns.Load() }

// Violations returns how often this process entered during a hold that excludes its own.
func (p *Page) Violations() int64 { return p.violations.Load() }
