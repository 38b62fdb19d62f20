package docs

import (
	"regexp"
	"strings"
)

// A sentence is a piece of prose. It ends with a full stop, or with its paragraph, list item, table cell or heading.
type sentence struct {
	line  int
	text  string // without markup: inline code is the word CODE, a link is its text
	title bool   // a heading, a table header, or a line of a table of contents
}

var (
	html       = regexp.MustCompile(`(?s)<!--.*?-->|</?[a-zA-Z][^>]*>`)
	inlineCode = regexp.MustCompile("(?s)``.+?``|`[^`]+`")
	image      = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)`)
	address    = regexp.MustCompile(`^\[[^\]]+\]: \S+$`) // of a link "[name]" in a package comment
	quote      = regexp.MustCompile(`^\s*>\s?`)
	title      = regexp.MustCompile(`^#+ `)
	contents   = regexp.MustCompile(`^- \[[^\]]*\]\(#[^)]*\)$`)
	item       = regexp.MustCompile(`^(?:[-*+•]|\d+[.)])\s+`)
	underline  = regexp.MustCompile(`^\s*\|[-:| ]+\|\s*$`) // between the header of a table and its rows

	// A full stop ends a sentence whatever follows, because names such as go-redis begin sentences. "!" and "?" end one
	// unless a lower-case letter follows. Closing quotes, brackets and asterisks belong to the end.
	sentenceEnd  = regexp.MustCompile(`(\.[)\]"'”’*]*)\s|([!?][)\]"'”’*]*)\s+[^\s\p{Ll}]`)
	abbreviation = regexp.MustCompile(`(?i)\b(?:e\.g|i\.e|vs|etc)\.$`)

	// Figures, paths and qualified names are one word each: 116,000, docs/which.md, lockmw.New.
	word = regexp.MustCompile(`[\p{L}\p{N}]+(?:['’.,/:_-]+[\p{L}\p{N}]+)*`)
)

// words counts the words of a text.
func words(text string) int { return len(word.FindAllString(text, -1)) }

// sentences returns the prose of a text in Markdown, or of a package comment.
func sentences(text string) (list []sentence) {
	for _, block := range blocks(replace(fence, text, "")) {
		list = append(list, split(block)...)
	}
	return list
}

// replace replaces the matches of re with a text, and keeps line breaks, so that line numbers stay right.
func replace(re *regexp.Regexp, text, with string) string {
	return re.ReplaceAllStringFunc(text, func(old string) string {
		return strings.Repeat("\n", strings.Count(old, "\n")) + with
	})
}

// blocks returns the paragraphs, list items, table cells and headings, with markup and line breaks.
func blocks(text string) (list []sentence) {
	open := false // the next line may continue the last block
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		trimmed := strings.TrimSpace(quote.ReplaceAllString(line, ""))
		starts := item.MatchString(trimmed)
		switch {
		case trimmed == "", address.MatchString(trimmed), strings.HasPrefix(line, "\t"): // a tab: code in a package comment
			open = false
		case strings.HasPrefix(trimmed, "|"):
			header := i+1 < len(lines) && underline.MatchString(lines[i+1])
			for cell := range strings.SplitSeq(strings.ReplaceAll(trimmed, `\|`, "/"), "|") {
				list = append(list, sentence{i + 1, cell, header})
			}
			open = false
		case title.MatchString(trimmed):
			list = append(list, sentence{i + 1, title.ReplaceAllString(trimmed, ""), true})
			open = false
		case open && !starts:
			list[len(list)-1].text += "\n" + trimmed
		default:
			list = append(list, sentence{i + 1, item.ReplaceAllString(trimmed, ""), contents.MatchString(trimmed)})
			open = true
		}
	}
	return list
}

// split returns the sentences of a block. Brackets and asterisks are removed last: a sentence may begin with one.
func split(block sentence) (list []sentence) {
	text := replace(html, replace(inlineCode, block.text, "CODE"), "")
	text = replace(link, replace(image, text, ""), "]")
	tidy := strings.NewReplacer("*", "", "[", "", "]", "")
	for line := block.line; text != ""; {
		end := firstEnd(text)
		body := strings.TrimLeft(text[:end], " \n")
		line += strings.Count(text[:end-len(body)], "\n")
		clean := strings.Join(strings.Fields(tidy.Replace(body)), " ")
		if clean = strings.Trim(clean, `"'“”()`); words(clean) > 0 {
			list = append(list, sentence{line, clean, block.title})
		}
		line += strings.Count(body, "\n")
		text = text[end:]
	}
	return list
}

// firstEnd returns the end of the first sentence.
func firstEnd(text string) int {
	for _, m := range sentenceEnd.FindAllStringSubmatchIndex(text, -1) {
		end := max(m[3], m[5]) // the group that did not match has -1
		if !abbreviation.MatchString(text[:end]) {
			return end
		}
	}
	return len(text)
}
