package inspector

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A query is the filter, order and page of the overview.
type query struct {
	Text, Mode, State string
	sort              string // one of orders
	backwards         bool
	Page              int // from 1
}

// Filters reports whether the query may exclude locks.
func (q query) Filters() bool { return q.Text != "" || q.Mode != "" || q.State != "" }

// Sort is the value of the sort parameter; "" for the default.
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

// A queryError describes an invalid query. It has its own status, so that it does not look like a query without matches.
type queryError string

func (q queryError) Error() string { return string(q) }

// parseQuery reads a query. An error is a queryError.
func parseQuery(values url.Values) (query, error) {
	for _, name := range []string{"q", "mode", "state", "sort", "page"} {
		if len(values[name]) > 1 {
			return query{}, queryError(name + " is given more than once")
		}
	}
	q := query{Text: values.Get("q"), Mode: values.Get("mode"), State: values.Get("state"), sort: defaultSort, Page: 1}
	if q.Mode != "" && !slices.Contains(modes, q.Mode) {
		return query{}, queryError("unknown mode; modes are " + strings.Join(modes, ", "))
	}
	if q.State != "" && !slices.Contains(states, q.State) {
		return query{}, queryError("unknown state to filter by; states are " + strings.Join(states, ", "))
	}
	if s := values.Get("sort"); s != "" {
		q.sort, q.backwards = strings.CutPrefix(s, "-")
		if orders[q.sort] == nil {
			return query{}, queryError("unknown column to sort by; columns are " + strings.Join(slices.Sorted(maps.Keys(orders)), ", "))
		}
	}
	if s := values.Get("page"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return query{}, queryError("page must be a number, 1 or more")
		}
		q.Page = n
	}
	return q, nil
}

// encode is the reverse of parseQuery. It omits defaults.
func (q query) encode() string {
	values := url.Values{"q": {q.Text}, "mode": {q.Mode}, "state": {q.State}, "sort": {q.Sort()}}
	if q.Page > 1 {
		values.Set("page", strconv.Itoa(q.Page))
	}
	maps.DeleteFunc(values, func(_ string, value []string) bool { return value[0] == "" })
	return values.Encode()
}

// at returns the query for another page.
func (q query) at(page int) query {
	q.Page = page
	return q
}

// by returns the query in the order of a column; reversed, if that is its order already.
func (q query) by(column string) query {
	q.backwards = q.sort == column && !q.backwards
	q.sort, q.Page = column, 1
	return q
}
