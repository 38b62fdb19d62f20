package prometheus_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A token of PromQL is one of these, after white space.
var promToken = regexp.MustCompile(`^\s*(?:` + strings.Join([]string{
	`(?P<string>"(?:[^"\\]|\\.)*")`,
	`(?P<duration>\d+(?:ms|[smhdwy])|\$__range\b|\$__rate_interval\b)`,
	`(?P<number>\d+(?:\.\d+)?)`,
	`(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)`,
	`(?P<operator>=~|!~|!=|==|>=|<=|[-+*/%^=<>(){}\[\],])`,
}, "|") + `)`)

// The parts of PromQL that the dashboard may use. Any other name must be a metric's, or a label's in the place of a label.
var (
	promFunctions = []string{
		"avg", "count", "histogram_quantile", "increase", "last_over_time", "max", "max_over_time", "min", "rate", "sort_desc", "sum", "topk",
	}
	promGroupings = []string{"by", "without"}
	promOperators = []string{"and", "or", "unless", "offset"}
)

// A promParser parses a query of Prometheus as far as needed to know what each name in it is.
type promParser struct {
	metrics exported
	kinds   []string
	words   []string
	at      int

	used     []string            // metrics
	grouping map[string][]string // labels by which keyword
	found    []string
}

func (p *promParser) fault(format string, args ...any) {
	p.found = append(p.found, fmt.Sprintf(format, args...))
}

// split splits the query into tokens.
func (p *promParser) split(query string) {
	for rest := query; strings.TrimSpace(rest) != ""; {
		match := promToken.FindStringSubmatch(rest)
		if match == nil {
			p.fault("not PromQL: %s", rest)
			return
		}
		for i, name := range promToken.SubexpNames() {
			if name != "" && match[i] != "" {
				p.kinds, p.words = append(p.kinds, name), append(p.words, match[i])
			}
		}
		rest = rest[len(match[0]):]
	}
}

// next returns the word after the current one, "" at the end.
func (p *promParser) next() string {
	if p.at+1 < len(p.words) {
		return p.words[p.at+1]
	}
	return ""
}

// list returns the words between the next opening bracket and its end, and moves there.
func (p *promParser) list(closing string) (words []string) {
	for p.at += 2; p.at < len(p.words) && p.words[p.at] != closing; p.at++ {
		words = append(words, p.words[p.at])
	}
	return words
}

func (p *promParser) parse(query string) {
	p.grouping = make(map[string][]string)
	p.split(query)
	depth := 0
	for ; p.at < len(p.words); p.at++ {
		word, next := p.words[p.at], p.next()
		switch {
		case word == "(":
			depth++
		case word == ")":
			depth--
		case word == "{":
			p.fault("a selector without a metric")
		case p.kinds[p.at] != "name", slices.Contains(promOperators, word):
		case slices.Contains(promGroupings, word) && next == "(":
			for _, label := range p.list(")") {
				if label != "," {
					p.grouping[word] = append(p.grouping[word], label)
				}
			}
		case slices.Contains(promFunctions, word) && (next == "(" || slices.Contains(promGroupings, next)):
		default:
			p.metric(word)
		}
	}
	if depth != 0 {
		p.fault("unbalanced parentheses: %s", query)
	}
	if len(p.used) == 0 {
		p.fault("no metric: %s", query)
	}
	for by, labels := range p.grouping {
		for _, metric := range p.used {
			for _, label := range labels {
				if _, ok := p.metrics[metric][label]; !ok {
					p.fault("%s %s: %s has no such label", by, label, metric)
				}
			}
		}
	}
}

// metric checks a metric and its selector.
func (p *promParser) metric(name string) {
	if _, ok := p.metrics[name]; !ok {
		p.fault("unknown name %s", name)
		return
	}
	p.used = append(p.used, name)
	if p.next() != "{" {
		return
	}
	words := p.list("}")
	for i := 0; i < len(words); i += 4 { // label, operator, value, comma
		if i+2 >= len(words) || i+3 < len(words) && words[i+3] != "," {
			p.fault("%s: not a selector: %s", name, strings.Join(words, " "))
			return
		}
		p.matcher(name, words[i], words[i+1], words[i+2])
	}
}

// matcher checks that a label, and the values that the query compares it with, were exported.
func (p *promParser) matcher(metric, label, operator, value string) {
	values, ok := p.metrics[metric][label]
	if !ok {
		p.fault("%s has no label %s", metric, label)
		return
	}
	value = strings.Trim(value, `"`)
	if strings.Contains(value, "$") {
		return
	}
	wanted := []string{value}
	if strings.HasSuffix(operator, "~") {
		wanted = strings.Split(value, "|")
	}
	for _, w := range wanted {
		if !slices.Contains(values, w) {
			p.fault("%s: %s is never %q", metric, label, w)
		}
	}
}

var legendLabel = regexp.MustCompile(`{{(\w+)}}`)

// faults lists the faults of a query and of the legend of its result.
func (metrics exported) faults(query, legend string) []string {
	p := &promParser{metrics: metrics}
	p.parse(query)
	for _, label := range legendLabel.FindAllStringSubmatch(legend, -1) {
		if !slices.Contains(p.grouping["by"], label[1]) {
			p.fault("the legend's %s is not in the result of %s", label[1], query)
		}
	}
	if strings.Contains(query, "histogram_quantile") && !slices.Contains(p.grouping["by"], "le") {
		p.fault("a quantile without le: %s", query)
	}
	return p.found
}
