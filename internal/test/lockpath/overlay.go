package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// instrument writes a copy of each file of this module in the program, with functions that record their calls. It returns the
// file that tells the compiler to use the copies.
func instrument(dir string) (overlay string, err error) {
	list := exec.Command("go", "list", "-deps", "-f", `{{if .Module}}{{$p := .}}{{range .GoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}`+"\n{{end}}{{end}}", here)
	list.Stderr = os.Stderr
	files, err := list.Output()
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for line := range strings.Lines(string(files)) {
		pkg, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		folder, ours := strings.CutPrefix(pkg, module)
		if !ours || strings.HasPrefix(folder, "internal/test/") {
			continue
		}
		name := folder + "/" + filepath.Base(file)
		text, err := instrumented(file, name)
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return "", err
		}
		replace[file] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// instrumented returns a file whose functions record their calls. Lines keep their numbers.
func instrumented(file, name string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, 0)
	if err != nil {
		return nil, err
	}
	var out []byte
	done := 0
	insert := func(after token.Pos, what string) {
		at := set.Position(after).Offset
		out = append(append(out, text[done:at]...), what...)
		done = at
	}
	insert(parsed.Name.End(), fmt.Sprintf("; import lockpathnote %q", here+"/note"))
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && f.Name.Name != "init" {
			insert(f.Body.Lbrace+1, fmt.Sprintf(" defer lockpathnote.Enter(%q, %q)();", name, nameOf(f)))
		}
	}
	out = append(append(out, text[done:]...), "\nvar _ = lockpathnote.Enter\n"...)
	return out, nil
}

// nameOf returns the name of a function, with its receiver.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	return receiver.(*ast.Ident).Name + "." + f.Name.Name
}
