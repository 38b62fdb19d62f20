package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/lockmw/go/internal/test/lockpath/note"
)

// At a call of a station the lock gets further. The main path of a lock is the stations and the functions that call them,
// directly or indirectly. Those are the active functions of the caller's goroutine, or of the one that wakes it, when a station
// is called. A helper that returns before the next station is not part of the path.
var stations = []string{
	"localq.Queue.Push",        // the call joins the calls of its process for the key
	"engine.cohort.newRequest", // it needs its own request
	"script.Acquire.Call",      // a command is made
	"transport.Call.command",   // and sent
	"script.AcquireAnswer",     // the answer is read
	"localq.Waiter.Notify",     // the caller learns that it has to wait
	"localq.Waiter.Await",      // it waits
	"script.ParseMessage",      // the message of the grant is parsed
	"localq.NewHold",           // the hold is made
	waking,                     // the wait ends
	"localq.Waiter.News",       // the caller sees it
	"lockmw.heldLock.newHold",
	"lockmw.Hold.attach", // the caller gets a context
}

const (
	calling = "lockmw.Client.Lock"
	waking  = "localq.Waiter.Finish"
)

// A function is a function of this module.
type function struct{ file, name string }

// String returns its name with its package.
func (f function) String() string { return path.Base(path.Dir(f.file)) + "." + f.name }

// A trail is functions in the order of their first calls.
type trail []function

func (t *trail) add(f function) {
	if !slices.Contains(*t, f) {
		*t = append(*t, f)
	}
}

// files returns the files of the functions, and the functions of each.
func (t trail) files() (files []string, in map[string][]string) {
	in = make(map[string][]string)
	for _, f := range t {
		if in[f.file] == nil {
			files = append(files, f.file)
		}
		in[f.file] = append(in[f.file], f.name)
	}
	return files, in
}

// String returns the length of the trail.
func (t trail) String() string {
	files, _ := t.files()
	return fmt.Sprintf("%d functions in %d files", len(t), len(files))
}

// show prints the main path by files, and the number of functions.
func show(entries []note.Entry) error {
	var all, ofOurs, main trail
	left := slices.Clone(stations)
	ours := goroutines(entries)
	stacks := make(map[string]trail)
	for _, e := range entries {
		stack := stacks[e.Goroutine]
		if e.Left {
			stacks[e.Goroutine] = stack[:len(stack)-1]
			continue
		}
		f := function{e.File, e.Name}
		stack = append(stack, f)
		stacks[e.Goroutine] = stack
		if !e.Counts {
			continue
		}
		all.add(f)
		if !ours[e.Goroutine] {
			continue
		}
		ofOurs.add(f)
		if !slices.Contains(stations, f.String()) {
			continue
		}
		left = slices.DeleteFunc(left, func(s string) bool { return s == f.String() })
		for _, f := range stack {
			main.add(f)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("these stations were not called: %v", left)
	}
	files, in := main.files()
	for _, file := range files {
		fmt.Printf("%s: %s\n", file, strings.Join(in[file], ", "))
	}
	fmt.Println("main path:", main)
	fmt.Println("with all helpers that they call:", ofOurs)
	fmt.Println("with functions in the background:", all)
	return nil
}

// goroutines returns the goroutine that called Lock, and the one that woke it.
func goroutines(entries []note.Entry) map[string]bool {
	ours := make(map[string]bool)
	for _, e := range entries {
		if f := (function{e.File, e.Name}).String(); e.Counts && (f == calling || f == waking) {
			ours[e.Goroutine] = true
		}
	}
	return ours
}
