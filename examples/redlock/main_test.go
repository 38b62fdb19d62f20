package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestSalesContinueUntilAMajorityIsDown(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, "", 2*time.Second); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	sold := regexp.MustCompile(`(\d+) sold, +(\d+) calls`).FindAllStringSubmatch(out.String(), -1)
	if len(sold) != 4 {
		t.Fatalf("the output is\n%s", out.String())
	}
	for i, phase := range sold {
		if n, _ := strconv.Atoi(phase[1]); n == 0 && i < 3 {
			t.Errorf("nothing is sold in phase %d:\n%s", i+1, out.String())
		}
	}
	if failed, _ := strconv.Atoi(sold[3][2]); failed == 0 {
		t.Errorf("no call fails without a majority:\n%s", out.String())
	}
}
