package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A rule finds phrases that readers stumble over, in all their forms, and names better ones.
type rule struct {
	name   string
	found  *regexp.Regexp
	better string
}

const (
	longSentence = 25 // words; a few are fine
	mostWords    = 35
)

// notInTitles is for rules about sentences only: a heading may be "What can go wrong". A question keeps its question mark.
var notInTitles = rule{"Who or What", regexp.MustCompile(`^(?:Who|What)\b.*[^?]$`), "name the thing"}

var rules = []rule{
	notInTitles,
	{"at most of", regexp.MustCompile(`(?i)\bat most of\b`), "a majority of"},
	{"goes on", regexp.MustCompile(`(?i)\b(?:go|goes|going|went|gone) on\b`), "continues"},
	{"is over", regexp.MustCompile(`(?i)\b(?:is|are|was|were|be|been) over(?: [^\d ]|[^ \w]|$)`), "has expired, has ended"}, // not "is over 35"
	{"at once", regexp.MustCompile(`(?i)\bat once\b`), "immediately, together"},
	{"beside", regexp.MustCompile(`(?i)\bbeside\b`), "next to"},
	{"for ever", regexp.MustCompile(`(?i)\bfor ever\b`), "forever, without limit"},
	{"that of", regexp.MustCompile(`(?i)\b(?:that|those) of\b`), "repeat the noun"},
	{"else", regexp.MustCompile(`[,;:] else\b|^Else\b`), "otherwise"}, // not "nobody else"
	{"too", regexp.MustCompile(`(?i)\btoo(?:[.,;:!?)]|$)`), "also"},   // not "too many"
	{"is away", regexp.MustCompile(`(?i)\b(?:is|are|was|were|be|been|go|goes|went) away\b`), "is unavailable, is unreachable"},
	{"wants to know", regexp.MustCompile(`(?i)\bwants? to know\b`), "needs"},
	{"is told", regexp.MustCompile(`(?i)\b(?:is|are|was|were|be|been) told\b`), "receives"},
	{"whoever", regexp.MustCompile(`(?i)\bwhoever\b`), "name the person or program"},
}

func (r rule) isBroken(s sentence) bool {
	return r.found.MatchString(s.text) && !(s.title && r == notInTitles)
}

// An exception allows words in a file, whatever rule they break. No exception allows a sentence of more than mostWords.
type exception struct{ file, words, reason string }

var exceptions = []exception{}

// excuses reports whether the sentence keeps the rule without the words of e.
func (e exception) excuses(path string, s sentence, broken rule) bool {
	s.text = strings.ReplaceAll(s.text, e.words, "EXCUSED")
	return path == e.file && !broken.isBroken(s)
}

// A fault is a sentence that is too long, or that breaks a rule.
type fault struct {
	line       int
	rule, text string
}

// A review is the number of sentences of a page, and its faults.
type review struct {
	path                     string
	sentences, long, tooLong int
	faults                   []fault
}

var firstWords = regexp.MustCompile(`^(?:\S+ ?){1,8}`)

// examined reviews a page. Faults that excused allows are left out.
func examined(p page, excused func(sentence, rule) bool) review {
	r := review{path: p.path}
	for _, s := range sentences(p.text) {
		n, start := words(s.text), firstWords.FindString(s.text)
		r.sentences++
		if n > longSentence {
			r.long++
		}
		if n > mostWords {
			r.tooLong++
			r.faults = append(r.faults, fault{s.line, "too long", fmt.Sprintf("%d words: %s", n, start)})
		}
		for _, rule := range rules {
			if rule.isBroken(s) && !excused(s, rule) {
				r.faults = append(r.faults, fault{s.line, rule.name, rule.better + ": " + start})
			}
		}
	}
	return r
}

// judge reviews all pages. The errors name their faults, and exceptions without use.
func judge(pages []page, exceptions []exception) (reviews []review, errs []string) {
	used := make(map[exception]bool)
	for _, p := range pages {
		r := examined(p, func(s sentence, broken rule) bool {
			i := slices.IndexFunc(exceptions, func(e exception) bool { return e.excuses(p.path, s, broken) })
			if i >= 0 {
				used[exceptions[i]] = true
			}
			return i >= 0
		})
		reviews = append(reviews, r)
		for _, f := range r.faults {
			errs = append(errs, fmt.Sprintf("%s:%d: %s: %s", p.path, f.line, f.rule, f.text))
		}
	}
	for _, e := range exceptions {
		if !used[e] || e.words == "" || e.reason == "" {
			errs = append(errs, fmt.Sprintf("%s: the exception for %q excuses nothing, or lacks words or a reason", e.file, e.words))
		}
	}
	return reviews, errs
}

// packageComments returns the comments of all packages that are not internal, on their lines in their files.
func packageComments(t *testing.T) (list []page) {
	t.Helper()
	set := token.NewFileSet()
	for _, pattern := range []string{"*/*.go", "*/*/*.go", "*/*/*/*.go"} {
		files, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.Contains("/"+path, "/internal/") || strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(set, filepath.Join(root, path), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			if file.Doc != nil {
				list = append(list, page{path, lineBreaksBefore(set, file.Doc) + file.Doc.Text()})
			}
		}
	}
	if len(list) < 10 {
		t.Fatalf("only %d package comments were found", len(list))
	}
	return list
}

// lineBreaksBefore returns a line break for each line of the file before the text of the comment.
func lineBreaksBefore(set *token.FileSet, comment *ast.CommentGroup) string {
	lines := set.Position(comment.Pos()).Line - 1
	if strings.HasPrefix(comment.List[0].Text, "/*\n") {
		lines++ // Text leaves this line out
	}
	return strings.Repeat("\n", lines)
}

// Readers understand every sentence of the documents at the first reading. With -v the test prints how many are long.
func TestProse(t *testing.T) {
	t.Parallel()
	all := packageComments(t)
	for _, p := range pages(t) {
		if p.path != "CHANGELOG.md" && !strings.HasPrefix(p.path, "internal/") {
			all = append(all, p)
		}
	}
	reviews, errs := judge(all, exceptions)
	for _, err := range errs {
		t.Error(err)
	}
	t.Log(table(reviews))
}

// table returns the figures of each page, and of each rule in all of them.
func table(reviews []review) string {
	text := fmt.Sprintf("\nsentences, over %d words, over %d words, words to replace\n", longSentence, mostWords)
	total, broken := review{path: "all"}, make(map[string]int)
	for _, r := range reviews {
		total.sentences += r.sentences
		total.long += r.long
		total.tooLong += r.tooLong
		total.faults = append(total.faults, r.faults...)
	}
	for _, r := range append(reviews, total) {
		text += fmt.Sprintf("%6d %5d %5d %5d  %s\n", r.sentences, r.long, r.tooLong, len(r.faults)-r.tooLong, r.path)
	}
	for _, f := range total.faults {
		broken[f.rule]++
	}
	for _, r := range rules {
		text += fmt.Sprintf("%6d  %s\n", broken[r.name], r.name)
	}
	return text
}

func TestProseFaultsAreFound(t *testing.T) {
	long := strings.Repeat("word ", mostWords)
	for text, want := range map[string]string{
		// too long
		long + "word.":                                             "[1 too long]",
		strings.TrimSpace(long) + ".":                              "[]",
		"Short. " + long + "\nword. Short.":                        "[1 too long]",
		"Short:\n\n- one\n  two.\n- " + long + "word":              "[5 too long]",
		long + ":\n1. an item":                                     "[]",
		long + "\n- an item":                                       "[]",
		long + "go. go-redis goes on.":                             "[1 too long 1 goes on]",
		long[5:] + "(e.g. `x`)":                                    "[1 too long]",
		long[5:] + "vs. v9.7":                                      "[1 too long]",
		long[5:] + "\"so!\" (He)":                                  "[]",
		long[5:] + "\"so!\" he":                                    "[1 too long]",
		long[5:] + "1,000.5":                                       "[]",
		long[5:] + "`many words of code\nhere`":                    "[]",
		long[5:] + "[a](https://a.example/b-c)<br>":                "[]",
		long[5:] + "![many words](a.png) **x**":                    "[]",
		"> It goes\n> on.":                                         "[1 goes on]",
		"| a | b |\n|---|---|\n| " + long + "| " + long + "word |": "[3 too long]",
		// Who or What
		"Who loses waits. (*What* is left is `x`.)":                                                  "[1 Who or What 1 Who or What]",
		"**What is it?** Who is \"it?\" Whose?":                                                      "[]",
		"# What is promised\n\n- [What is seen](#what-is-seen)\n\n| What it says | Why |\n|---|---|": "[]",
		"| a |\n|---|\n| What it says |\n| what it says |":                                           "[3 Who or What]",
		"It\n| runs | goes\non.":                                                                     "[]",
		// the other words, and what looks like them
		"A lock at most of the nodes, at most 3.":                                 "[1 at most of]",
		"It goes\non. It went on, based on logs.":                                 "[1 goes on 2 goes on]",
		"It is over. It is over 35 words, over the net.":                          "[1 is over]",
		"All at\nonce. Run `at once` once.":                                       "[1 at once]",
		"# Beside\nIt stands besides.\n# Else":                                    "[1 beside 3 else]",
		"It waits for ever, for every node.":                                      "[1 for ever]",
		"Like that of a lock. Those, of course.":                                  "[1 that of]",
		"Else it waits. It runs; else it waits.\nNobody else does, nothing else.": "[1 else 1 else]",
		"This too. This, too, is. | Too many are too late.":                       "[1 too 1 too]",
		"Redis is away. Take it away.":                                            "[1 is away]",
		"It wants\nto know. You want this.":                                       "[1 wants to know]",
		"It was told. Nobody told it.":                                            "[1 is told]",
		"Give it to whoever asks, whatever it is.":                                "[1 whoever]",
		"```sh\nat once\n```\n1. one\n\n   ```go\n   at once\n   ```\n   at once": "[9 at once]",
		"Code:\n\n\tat once\n\nText at once.\n\n[at once]: https://a.example":     "[5 at once]",
		"<!-- at once -->\nat once":                                               "[2 at once]",
	} {
		found := []string{}
		for _, f := range examined(page{"a.md", text}, func(sentence, rule) bool { return false }).faults {
			found = append(found, fmt.Sprintf("%d %s", f.line, f.rule))
		}
		if got := fmt.Sprint(found); got != want {
			t.Errorf("%q has the faults %s, want %s", text, got, want)
		}
	}
}

func TestProseExceptionsAreNeeded(t *testing.T) {
	all := []page{{"a.md", "It runs at once."}, {"b.md", "It runs."}}
	needed := exception{"a.md", "runs at once", "as an example"}
	for _, test := range []struct {
		name       string
		exceptions []exception
		want       int
	}{
		{"a fault", nil, 1},
		{"an exception", []exception{needed}, 0},
		{"an exception without a reason", []exception{{"a.md", "at once", ""}}, 1},
		{"an exception without words", []exception{{"a.md", "", "none"}}, 1},
		{"an exception for another file", []exception{{"b.md", "at once", "none"}}, 2},
		{"an exception for other words", []exception{needed, {"a.md", "It runs", "none"}}, 1},
	} {
		if _, errs := judge(all, test.exceptions); len(errs) != test.want {
			t.Errorf("%s: want %d errors, got %q", test.name, test.want, errs)
		}
	}
}
