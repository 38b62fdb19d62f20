// Package note records which functions run, and on which goroutine. Package lockpath inserts the calls.
package note

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"sync"
)

// An Entry is the entry into a function, or its exit.
type Entry struct {
	Goroutine, File, Name string
	Left                  bool
	Counts                bool // it happened while entries counted
}

var record struct {
	sync.Mutex
	entries []Entry
	counts  bool
}

// Count makes entries count from now on.
func Count() {
	record.Lock()
	defer record.Unlock()
	record.counts = true
}

// Enter records that a function was entered. The function that it returns records the exit.
func Enter(file, name string) (leave func()) {
	e := Entry{Goroutine: goroutine(), File: file, Name: name}
	add(e)
	e.Left = true
	return func() { add(e) }
}

func add(e Entry) {
	record.Lock()
	defer record.Unlock()
	e.Counts = record.counts
	record.entries = append(record.entries, e)
}

// Calls returns how often a function was entered.
func Calls(file, name string) (n int) {
	record.Lock()
	defer record.Unlock()
	for _, e := range record.entries {
		if e.File == file && e.Name == name && !e.Left {
			n++
		}
	}
	return n
}

// goroutine returns the name of the calling goroutine.
func goroutine() string {
	var text [64]byte
	n := runtime.Stack(text[:], false) // goroutine 7 [running]:
	return string(bytes.Fields(text[:n])[1])
}

// Write writes all entries to a file.
func Write(file string) error {
	record.Lock()
	defer record.Unlock()
	text, err := json.Marshal(record.entries)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
