package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// always are the figures of each line, null where the workload has none.
var always = []string{OpsPerS, P50, P99, Longest, CmdsPer, Jain}

// MarshalJSON makes an object of the figures: first the usual ones, then by name those that only some workloads have.
func (f Figures) MarshalJSON() ([]byte, error) {
	b := bytes.NewBufferString("{")
	field(b, "workload", f.Workload)
	field(b, "library", f.Library)
	for _, name := range always {
		value, ok := f.Values[name]
		number(b, name, value, ok)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Values)) {
		if !slices.Contains(always, name) {
			number(b, name, f.Values[name], true)
		}
	}
	if f.Err != nil {
		field(b, "error", f.Err.Error())
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// MarshalJSON makes an object of the outcome.
func (o Outcome) MarshalJSON() ([]byte, error) {
	b := bytes.NewBufferString("{")
	field(b, "goal", o.Goal.What)
	field(b, "goal_workload", o.Goal.Workload)
	number(b, "limit", o.Goal.Limit, true)
	number(b, "measured", o.Measured, o.State != NotMeasured)
	field(b, "outcome", string(o.State))
	b.WriteByte('}')
	return b.Bytes(), nil
}

func field(b *bytes.Buffer, name, value string) {
	text, _ := json.Marshal(value) // a string can always be encoded
	separate(b)
	fmt.Fprintf(b, "%q:%s", name, text)
}

// number writes a figure with its significant digits.
func number(b *bytes.Buffer, name string, value float64, ok bool) {
	separate(b)
	if !ok || math.IsNaN(value) || math.IsInf(value, 0) {
		fmt.Fprintf(b, "%q:null", name)
		return
	}
	fmt.Fprintf(b, "%q:%s", name, strconv.FormatFloat(round(value), 'f', -1, 64))
}

func separate(b *bytes.Buffer) {
	if b.Len() > 1 {
		b.WriteByte(',')
	}
}

// round keeps three decimals.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }
