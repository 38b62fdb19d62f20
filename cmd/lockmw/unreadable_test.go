package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// One key that cannot be read hides neither itself nor others.
func TestTopShowsAKeyThatCannotBeRead(t *testing.T) {
	s := redistest.Mini(t)
	take(t, newClient(t, s), "user:1")
	e := newEyes(t, s)
	sight := e.sightOf(func(yield func(lockmw.Status, error) bool) {
		_ = yield(lockmw.Status{Key: "moves"}, errors.New("TRYAGAIN")) && yield(lockmw.Status{Key: "user:1"}, nil)
	}, topOrders[0].compare, memory{})
	if len(sight.looks) != 2 || sight.err != nil || sight.looks[0].record.Error+sight.looks[1].record.Error != "TRYAGAIN" {
		t.Errorf("%+v", sight)
	}
	looks, err := e.lookAgain(t.Context(), []string{strings.Repeat("x", 1025), "user:1"})
	if err != nil || len(looks) != 1 || looks[0].record.Key != "user:1" {
		t.Errorf("%+v, %v", looks, err)
	}
}
