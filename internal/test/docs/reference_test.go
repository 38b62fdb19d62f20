package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/doctor"
	"github.com/lockmw/go/internal/observe"
)

func TestReferenceHasAllOptions(t *testing.T) {
	var options []string
	eachDeclaration(t, func(pkg string, d ast.Decl) {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && f.Name.IsExported() && returnsOption(f) {
			options = append(options, qualified(pkg, f.Name.Name))
		}
	})
	compare(t, "reference.md", "| option |", options)
}

func TestReferenceHasAllErrors(t *testing.T) {
	var errs []string
	eachDeclaration(t, func(pkg string, d ast.Decl) {
		switch d := d.(type) {
		case *ast.GenDecl: // var ( ErrBusy = … )
			for _, name := range namesOf(d) {
				if d.Tok == token.VAR && strings.HasPrefix(name, "Err") {
					errs = append(errs, qualified(pkg, name))
				}
			}
		case *ast.FuncDecl: // func (e *Error) Error() string
			if name := receiver(d); d.Name.Name == "Error" && ast.IsExported(name) {
				errs = append(errs, "*"+qualified(pkg, name))
			}
		}
	})
	compare(t, "reference.md", "| error |", errs)
}

func TestReferenceHasAllModes(t *testing.T) {
	var modes []string
	for i := range constants(t, "internal/core/locks.go", "Mode") {
		modes = append(modes, core.Mode(i).String())
	}
	compare(t, "reference.md", "| mode |", modes)
}

func TestTheOutcomesOfIdempotentCallsAreExplained(t *testing.T) {
	var outcomes []string
	for _, o := range observe.CallOutcomes {
		outcomes = append(outcomes, string(o))
	}
	compare(t, "idempotency.md", "| outcome of a call |", outcomes)
	source, err := os.ReadFile(filepath.Join(root, "lockmw", "observer.go"))
	if err != nil {
		t.Fatal(err)
	}
	var explained []string
	for _, row := range regexp.MustCompile(`(?m)^\t//\t(\w+) {2,}`).FindAllStringSubmatch(string(source), -1) {
		explained = append(explained, row[1])
	}
	if !slices.Equal(explained, outcomes) {
		t.Errorf("the comment of IdempotentCall explains %q, want %q", explained, outcomes)
	}
}

func TestThePageOfTheDoctorHasAllChecksAndVerdicts(t *testing.T) {
	compare(t, "command.md", "| check |", slices.Concat(doctor.ReadOnlyChecks, doctor.WritingChecks, []string{"asynq", "bridge"}))
	var verdicts []string
	for i := range constants(t, "internal/doctor/doctor.go", "Verdict") {
		verdicts = append(verdicts, doctor.Verdict(i).String())
	}
	compare(t, "command.md", "| verdict |", verdicts)
}

// Pages with the fencing statement have the one of docs/fencing.md, which tests run in databases.
func TestThereIsOneFencingStatement(t *testing.T) {
	statements := func(p page) (found []string) {
		for _, block := range fence.FindAllStringSubmatch(p.text, -1) {
			if i := strings.Index(block[2], "UPDATE items"); block[1] == "sql" && i >= 0 {
				found = append(found, strings.TrimSpace(block[2][i:]))
			}
		}
		return found
	}
	all := pages(t)
	i := slices.IndexFunc(all, func(p page) bool { return p.path == "docs/fencing.md" })
	if i < 0 || len(statements(all[i])) == 0 {
		t.Fatal("docs/fencing.md has no statement")
	}
	for _, p := range all {
		for _, s := range statements(p) {
			if !slices.Contains(statements(all[i]), s) {
				t.Errorf("the statement in %s differs from docs/fencing.md:\n%s", p.path, s)
			}
		}
	}
}

// compare compares the names in the first column of a page's tables with the existing names.
func compare(t *testing.T, page, head string, there []string) {
	t.Helper()
	code := regexp.MustCompile("`([\\w.*-]+)[^`]*`")
	var documented []string
	for _, row := range tableRows(t, page, head) {
		first := strings.Split(row, "|")[1]
		names := code.FindAllStringSubmatch(first, -1)
		if len(names) == 0 {
			t.Errorf("%s: a row of %q names nothing: %s", page, head, row)
		}
		for _, name := range names {
			documented = append(documented, name[1])
		}
	}
	for _, name := range there {
		if !slices.Contains(documented, name) {
			t.Errorf("%s: the tables %q lack %s", page, head, name)
		}
	}
	for i, name := range documented {
		if !slices.Contains(there, name) {
			t.Errorf("%s: a table %q has %s, which does not exist", page, head, name)
		}
		if slices.Contains(documented[:i], name) {
			t.Errorf("%s: the tables %q have %s twice", page, head, name)
		}
	}
}

// qualified returns the name as the pages write it.
func qualified(pkg, name string) string {
	if pkg == "lockmw" {
		return name
	}
	return pkg + "." + name
}

// eachDeclaration calls f with the declarations of all public packages.
func eachDeclaration(t *testing.T, f func(pkg string, d ast.Decl)) {
	t.Helper()
	packages := make(map[string]bool)
	files, err := filepath.Glob(filepath.Join(root, "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	stores, err := filepath.Glob(filepath.Join(root, "idempotency", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, stores...)
	for _, path := range files {
		_, err := os.Stat(filepath.Join(filepath.Dir(path), "go.mod"))
		if nested := err == nil; nested || strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := parse(t, path)
		packages[file.Name.Name] = true
		for _, d := range file.Decls {
			f(file.Name.Name, d)
		}
	}
	if len(packages) < 10 {
		t.Errorf("only these packages were read: %v", slices.Sorted(maps.Keys(packages)))
	}
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// returnsOption reports whether a function returns only an Option, a ClientOption or the like.
func returnsOption(f *ast.FuncDecl) bool {
	if f.Type.Results.NumFields() != 1 {
		return false
	}
	result := f.Type.Results.List[0].Type
	if s, ok := result.(*ast.SelectorExpr); ok { // lockmw.Option
		result = s.Sel
	}
	name, ok := result.(*ast.Ident)
	return ok && strings.HasSuffix(name.Name, "Option") && name.IsExported()
}

// receiver returns the type of a method; "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// namesOf returns the names of variables or constants that are declared together.
func namesOf(d *ast.GenDecl) (names []string) {
	for _, spec := range d.Specs {
		if values, ok := spec.(*ast.ValueSpec); ok {
			for _, name := range values.Names {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// constants counts the constants of a type, which are 0, 1, 2, and so on.
func constants(t *testing.T, path, of string) int {
	t.Helper()
	for _, d := range parse(t, filepath.Join(root, path)).Decls {
		if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.CONST {
			first, _ := d.Specs[0].(*ast.ValueSpec)
			if name, ok := first.Type.(*ast.Ident); ok && name.Name == of {
				return len(namesOf(d))
			}
		}
	}
	t.Fatalf("%s has no constants of type %s", path, of)
	return 0
}
