package inspector

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A query is what the overview is to show.
type query struct {
	text, Mode, State string
	sort              string // one of orders
	backwards         bool
	Page              int // the first is 1
}

// Text is what the form shows of the text.
func (q query) Text() string { return plain(q.text) }

// Filters reports whether the query leaves locks out.
func (q query) Filters() bool { return q.text != "" || q.Mode != "" || q.State != "" }

// Sort is the value of the parameter, "" if it is the default.
func (q query) Sort() string {
	switch {
	case q.backwards:
		return "-" + q.sort
	case q.sort != defaultSort:
		return q.sort
	}
	return ""
}

const defaultSort = "waiting"

// A queryError is why a query makes no sense. Its answer must not look like one to a query that nothing matches.
type queryError string

func (q queryError) Error() string { return string(q) }

// parseQuery reads a query. An error is a queryError.
func parseQuery(values url.Values) (query, error) {
	for _, name := range []string{"q", "mode", "state", "sort", "page"} {
		if len(values[name]) > 1 {
			return query{}, queryError(name + " is given more than once")
		}
	}
	q := query{text: values.Get("q"), Mode: values.Get("mode"), State: values.Get("state"), sort: defaultSort, Page: 1}
	if q.Mode != "" && !slices.Contains(modes, q.Mode) {
		return query{}, queryError("there is no such mode; there are " + strings.Join(modes, ", "))
	}
	if q.State != "" && !slices.Contains(states, q.State) {
		return query{}, queryError("locks cannot be filtered by this state, but by " + strings.Join(states, ", "))
	}
	if s := values.Get("sort"); s != "" {
		q.sort, q.backwards = strings.CutPrefix(s, "-")
		if orders[q.sort] == nil {
			return query{}, queryError("there is no such column to sort by; there are " + strings.Join(slices.Sorted(maps.Keys(orders)), ", "))
		}
	}
	if s := values.Get("page"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return query{}, queryError("a page is a number from 1 on")
		}
		q.Page = n
	}
	return q, nil
}

// encode is the reverse of parseQuery, without what is the default.
func (q query) encode() string {
	values := make(url.Values)
	set := func(name, value string) {
		if value != "" {
			values.Set(name, value)
		}
	}
	set("q", q.text)
	set("mode", q.Mode)
	set("state", q.State)
	set("sort", q.Sort())
	if q.Page > 1 {
		set("page", strconv.Itoa(q.Page))
	}
	return values.Encode()
}

// at returns the query for another page.
func (q query) at(page int) query {
	q.Page = page
	return q
}

// by returns the query in the order of a column, or in the reverse order if it is in that already.
func (q query) by(column string) query {
	q.backwards = q.sort == column && !q.backwards
	q.sort, q.Page = column, 1
	return q
}
