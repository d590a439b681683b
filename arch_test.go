// Package vcsd_test checks rules that hold for the tree as a whole: which
// package may import which, where files are opened, that everything exported is
// documented, and that every dependency has its reason.
package vcsd_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tower lists the packages from the bottom up. A package imports only packages
// of rows before its own; rows of one floor order those that build upon each
// other.
var tower = []struct {
	floor    int
	packages []string
}{
	{0, []string{"hg"}},
	{0, []string{"cache", "config", "internal/bigbuf", "internal/vfs", "pattern"}},
	{0, []string{"acl", "internal/livefile"}},
	{0, []string{"auth"}},
	{1, []string{"dag", "revlog/chunk", "revlog/delta", "wire/internal/frame"}},
	{1, []string{"wire/changegroup", "wire/compression", "wire/obsmarker"}},
	{1, []string{"wire/bundle2"}},
	{2, []string{"hook/overlay", "journal", "quarantine", "refs", "refs/embedded", "revlog", "wire"}},
	{2, []string{"hook"}},
	{3, []string{"store"}},
	{4, []string{"ingest", "outgoing"}},
	{4, []string{"verify"}},
	{5, []string{"server"}},
	{6, []string{"cmd/vcsd"}},
}

// forTests are packages that only tests and measurements import; they may import
// any other.
var forTests = []string{
	"internal/hgtest", "internal/powerdisk", "internal/vfs/errfs", "refs/refstest", "e2e", "e2e/broken", "e2e/differential", "e2e/killsweep", "e2e/linear", "e2e/trouble",
	"bench", "bench/history", "bench/kernel", "bench/report",
}

// opensFiles are the packages that open files by themselves: vfs does it for
// all others; config reads hgrc files wherever they are; server and its command
// have the process's own, as logs and the pid file.
var opensFiles = []string{"internal/vfs", "config", "server", "cmd/vcsd"}

// file is a parsed Go file; dir is its package's, relative to the module.
type file struct {
	dir, name string
	test      bool
	ast       *ast.File
}

// tree parses every Go file of the module.
func tree(t *testing.T) (files []file, fset *token.FileSet) {
	t.Helper()
	fset = token.NewFileSet()
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		a, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		dir := path.Dir(name)
		files = append(files, file{dir, name, strings.HasSuffix(name, "_test.go"), a})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, fset
}

// place returns the row and the floor of a package.
func place(dir string) (row, floor int, ok bool) {
	for i, r := range tower {
		if slices.Contains(r.packages, dir) {
			return i, r.floor, true
		}
	}
	return 0, 0, false
}

func TestImportsGoDownTheTower(t *testing.T) {
	files, _ := tree(t)
	for _, f := range files {
		if f.test || slices.Contains(forTests, f.dir) {
			continue
		}
		row, floor, ok := place(f.dir)
		if !ok {
			t.Errorf("%s: package %s has no floor", f.name, f.dir)
			continue
		}
		for _, spec := range f.ast.Imports {
			name, ok := strings.CutPrefix(importPath(spec), "vcsd/")
			if !ok {
				continue
			}
			if r, fl, known := place(name); !known {
				t.Errorf("%s (floor %d) imports %s, which has no floor", f.name, floor, name)
			} else if r >= row {
				t.Errorf("%s (floor %d) imports %s (floor %d)", f.name, floor, name, fl)
			}
		}
	}
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic(err) // the parser took it
	}
	return p
}

var openers = regexp.MustCompile(`^(Open.*|Create.*|ReadFile|WriteFile|Mkdir.*|Rename|Remove.*|Truncate|Link|Symlink)$`)

func TestOnlyVFSOpensFiles(t *testing.T) {
	files, fset := tree(t)
	for _, f := range files {
		if f.test || slices.Contains(forTests, f.dir) {
			continue
		}
		for _, spec := range f.ast.Imports {
			if p := importPath(spec); (p == "unsafe" || p == "io/ioutil") && f.dir != "internal/vfs" {
				t.Errorf("%s imports %s", f.name, p)
			}
		}
		if slices.Contains(opensFiles, f.dir) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "os" && openers.MatchString(s.Sel.Name) {
					t.Errorf("%s calls os.%s; use a vfs.FS", fset.Position(n.Pos()), s.Sel.Name)
				}
			}
			return true
		})
	}
}

// Each package has one comment, which says what it does; in doc.go where it has
// more than one file.
func TestPackageComments(t *testing.T) {
	files, _ := tree(t)
	comments, count := map[string][]string{}, map[string]int{}
	for _, f := range files {
		if f.test {
			continue
		}
		count[f.dir]++
		if f.ast.Doc != nil {
			comments[f.dir] = append(comments[f.dir], f.name)
		}
	}
	for dir, n := range count {
		switch c := comments[dir]; {
		case len(c) != 1:
			t.Errorf("%s has %d package comments, want one: %v", dir, len(c), c)
		case n > 1 && path.Base(c[0]) != "doc.go":
			t.Errorf("%s: the package comment belongs in doc.go", c[0])
		}
	}
}

// selfExplaining are methods whose meaning an interface of the standard library
// fixes.
var selfExplaining = []string{"Error", "String", "Unwrap", "Is", "As", "Len", "Less", "Swap"}

func TestExportedNamesAreDocumented(t *testing.T) {
	files, fset := tree(t)
	for _, f := range files {
		if f.test || f.ast.Name.Name == "main" {
			continue
		}
		for _, d := range f.ast.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s: %s has no doc comment", fset.Position(d.Pos()), name)
			}
		}
	}
}

// undocumented returns the exported names of a declaration that no comment
// describes; a comment on a group covers its constants and variables.
func undocumented(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) && (d.Recv == nil || !slices.Contains(selfExplaining, d.Name.Name)) {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && d.Doc == nil {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				if s.Doc != nil || s.Comment != nil || d.Doc != nil {
					continue
				}
				for _, n := range s.Names {
					if n.IsExported() {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

var required = regexp.MustCompile(`(?m)^(?:require |tool |\t)([a-z0-9.]+\.[a-z]+/\S+)(?: v\S+)?$`)

func TestDependenciesHaveReasons(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("doc/deps.md")
	if err != nil {
		t.Fatal(err)
	}
	found := required.FindAllSubmatch(mod, -1)
	if len(found) < 10 {
		t.Fatalf("only %d dependencies found in go.mod", len(found))
	}
	for _, m := range found {
		if !strings.Contains(string(doc), fmt.Sprintf("`%s`", m[1])) {
			t.Errorf("doc/deps.md gives no reason for %s", m[1])
		}
	}
}
