// Apichanges prints changes of a Go API that break callers, one on a line:
//
//	apichanges OLD NEW PATTERN...
//
// OLD and NEW are folders, each with a go.work or go.mod. The patterns name packages there, such as ./... for the folder's module.
// The exit status is 0 with and without changes.
package main

import (
	"errors"
	"fmt"
	"go/types"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/packages"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "apichanges:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: apichanges OLD NEW PATTERN...")
	}
	before, err := load(args[0], args[2:])
	if err != nil {
		return err
	}
	after, err := load(args[1], args[2:])
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if after[path] == nil {
			fmt.Printf("%s: removed\n", path)
			continue
		}
		for _, c := range apidiff.Changes(before[path], after[path]).Changes {
			if !c.Compatible {
				fmt.Printf("%s: %s\n", path, c.Message)
			}
		}
	}
	return nil
}

// load returns the packages that others can import, by their paths.
func load(folder string, patterns []string) (map[string]*types.Package, error) {
	list, err := packages.Load(&packages.Config{Mode: packages.LoadTypes, Dir: folder}, patterns...)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*types.Package)
	for _, p := range list {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s: %w", p.PkgPath, p.Errors[0])
		}
		if p.Name != "main" && !strings.Contains(p.PkgPath+"/", "/internal/") {
			found[p.PkgPath] = p.Types
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no packages in %s", folder)
	}
	return found, nil
}
