package inspector

import (
	"net/url"
	"strconv"
	"strings"
)

// A query is what the overview is to show.
type query struct {
	text, mode, state string
	sort              string // one of orders
	backwards         bool
	page              int // the first is 1
}

// What the form shows of the query.
func (q query) Text() string  { return plain(q.text) }
func (q query) Mode() string  { return q.mode }
func (q query) State() string { return q.state }
func (q query) Page() int     { return q.page }

// Filters reports whether the query leaves locks out.
func (q query) Filters() bool { return q.text != "" || q.mode != "" || q.state != "" }

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

// parseQuery reads a query. What makes no sense is left out.
func parseQuery(values url.Values) query {
	q := query{text: values.Get("q"), mode: values.Get("mode"), state: values.Get("state"), sort: defaultSort, page: 1}
	if name, backwards := strings.CutPrefix(values.Get("sort"), "-"); orders[name] != nil {
		q.sort, q.backwards = name, backwards
	}
	if n, err := strconv.Atoi(values.Get("page")); err == nil && n > 1 {
		q.page = n
	}
	return q
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
	set("mode", q.mode)
	set("state", q.state)
	set("sort", q.Sort())
	if q.page > 1 {
		set("page", strconv.Itoa(q.page))
	}
	return values.Encode()
}

// at returns the query for another page.
func (q query) at(page int) query {
	q.page = page
	return q
}

// by returns the query in the order of a column, or in the reverse order if it is in that already.
func (q query) by(column string) query {
	q.backwards = q.sort == column && !q.backwards
	q.sort, q.page = column, 1
	return q
}
