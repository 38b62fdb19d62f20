package protocol

import (
	"flag"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/states"
	"github.com/lockmw/go/internal/test/suite"
)

var (
	contenders   = flag.String("contenders", "", "visit all states of these processes, at most 3: plain, fair, batcher, writer, reader, both; separated by commas")
	acquisitions = flag.Int("acquisitions", 2, "by each of them")
	replays      = flag.Uint("replays", 1, "commands that are written again")
	delays       = flag.Uint("delays", 1, "times that a process is too slow")
	cancels      = flag.Uint("cancels", 1, "calls that end early")
	deaths       = flag.Uint("deaths", 0, "processes that die")
	cuts         = flag.Uint("cuts", 0, "scripts that end after one of their writes")
	losses       = flag.Uint("losses", 0, "holds that the server forgets too early")
	forgeries    = flag.Uint("forgeries", 0, "messages that are repeated or forged")
	pollsAtOnce  = flag.Int("polls", 1, "of one process, at most 2")
	tries        = flag.Bool("tries", true, "some acquires do not wait")
	admitted     = flag.Int("admitted", 0, "readers admitted by one execution; 0: all")
)

func two(r role) [maxProcesses]role   { return [...]role{r, r, 0} }
func three(r role) [maxProcesses]role { return [...]role{r, r, r} }

// systems are small enough for the quick suite. Each one covers what the others lack.
var systems = map[string]system{
	"batches":           {roles: [...]role{batcher, batcher, plain}, acquires: 1, polls: 1, faults: faults{1, 0, 1, 0, 0, 0, 0}},
	"batches, one dies": {roles: [...]role{batcher, batcher, plain}, acquires: 1, polls: 1, faults: faults{0, 1, 0, 1, 0, 0, 0}},
	"lost batches":      {roles: three(batcher), acquires: 1, polls: 1, faults: faults{0, 0, 0, 0, 0, 1, 0}},
	"messages repeated": {roles: two(plain), acquires: 2, polls: 1, faults: faults{0, 1, 0, 0, 0, 0, 2}},
	"cut off":           {roles: two(both), acquires: 1, polls: 1, tries: true, faults: faults{0, 0, 1, 0, 1, 0, 0}},
}

// largeSystems take several seconds each.
var largeSystems = map[string]system{
	"deaths":                     {roles: two(plain), acquires: 2, polls: 1, tries: true, faults: faults{0, 1, 1, 1, 0, 0, 0}},
	"peeks":                      {roles: two(plain), acquires: 2, polls: 1, peeks: true, faults: faults{1, 1, 0, 0, 0, 0, 0}},
	"peeks overtaken":            {roles: two(plain), acquires: 1, polls: 2, peeks: true, faults: faults{1, 1, 1, 0, 0, 0, 0}},
	"peeks by readers":           {roles: [...]role{writer, both, reader}, acquires: 1, polls: 1, peeks: true, faults: faults{0, 1, 0, 0, 0, 0, 1}},
	"polls overtaken":            {roles: two(plain), acquires: 2, polls: 2, faults: faults{1, 1, 0, 0, 0, 0, 0}},
	"three processes":            {roles: three(plain), acquires: 1, polls: 1, faults: faults{1, 1, 1, 0, 0, 0, 0}},
	"three, one dies":            {roles: three(plain), acquires: 1, polls: 1, faults: faults{1, 1, 0, 1, 0, 0, 0}},
	"readers in portions":        {roles: [...]role{writer, both, reader}, acquires: 1, polls: 1, maxAdmitted: 1, faults: faults{0, 0, 1, 1, 0, 0, 0}},
	"kept twice":                 {roles: two(fair), acquires: 2, polls: 1, faults: faults{1, 0, 1, 0, 0, 0, 0}},
	"reads, many faults":         {roles: two(both), acquires: 1, polls: 1, tries: true, faults: faults{1, 1, 1, 1, 0, 0, 0}},
	"replays, tries":             {roles: two(plain), acquires: 2, polls: 1, tries: true, faults: faults{1, 1, 1, 0, 0, 0, 0}},
	"many faults":                {roles: two(plain), acquires: 1, polls: 2, tries: true, faults: faults{2, 2, 1, 1, 0, 0, 0}},
	"cut off, replays":           {roles: two(plain), acquires: 2, polls: 1, tries: true, faults: faults{1, 0, 1, 0, 1, 0, 0}},
	"cut off, delays":            {roles: two(both), acquires: 1, polls: 1, faults: faults{1, 1, 1, 0, 1, 0, 0}},
	"cut off, several readers":   {roles: [...]role{writer, both, reader}, acquires: 1, polls: 1, faults: faults{0, 0, 1, 0, 1, 0, 0}},
	"cut off, kept places":       {roles: two(fair), acquires: 2, polls: 1, faults: faults{0, 0, 1, 0, 1, 0, 0}},
	"reads and writes":           {roles: two(both), acquires: 2, polls: 1, faults: faults{1, 1, 0, 0, 0, 0, 0}},
	"readers":                    {roles: [...]role{writer, reader, reader}, acquires: 1, polls: 1, faults: faults{1, 1, 0, 0, 0, 0, 0}},
	"phases":                     {roles: [...]role{writer, reader, reader}, acquires: 2, polls: 1, faults: faults{0, 0, 1, 0, 0, 0, 0}},
	"three read and write":       {roles: three(both), acquires: 1, polls: 1, tries: true, faults: faults{0, 1, 1, 0, 0, 0, 0}},
	"batches, delays":            {roles: [...]role{batcher, batcher, plain}, acquires: 2, polls: 1, faults: faults{0, 1, 0, 0, 0, 0, 0}},
	"batches, replays":           {roles: three(batcher), acquires: 1, polls: 1, faults: faults{1, 1, 1, 0, 0, 0, 0}},
	"batches, cut off":           {roles: three(batcher), acquires: 1, polls: 1, faults: faults{1, 0, 1, 0, 1, 0, 0}},
	"batches and a reader":       {roles: [...]role{batcher, batcher, reader}, acquires: 2, polls: 1, faults: faults{0, 0, 1, 0, 0, 0, 0}},
	"batches and a kept place":   {roles: [...]role{batcher, batcher, fair}, acquires: 2, polls: 1, faults: faults{0, 0, 1, 0, 0, 0, 0}},
	"messages repeated, replays": {roles: two(plain), acquires: 2, polls: 1, faults: faults{1, 1, 1, 0, 0, 0, 1}},
	"batches, messages repeated": {roles: three(batcher), acquires: 1, polls: 1, faults: faults{0, 1, 0, 0, 0, 0, 1}},
	"readers, messages repeated": {roles: [...]role{writer, reader, reader}, acquires: 1, polls: 1, faults: faults{0, 1, 0, 0, 0, 0, 1}},
	"kinds mixed":                {roles: [...]role{plain, reader, fair}, acquires: 1, polls: 1, tries: true, faults: faults{0, 1, 1, 1, 0, 0, 0}},
	"kept places":                {roles: [...]role{fair, reader, 0}, acquires: 3, polls: 1, faults: faults{0, 0, 2, 0, 0, 0, 0}},
	"kept places, tries":         {roles: [...]role{fair, reader, 0}, acquires: 2, polls: 1, tries: true, faults: faults{1, 0, 1, 0, 0, 0, 0}},
	"kept twice, and a third":    {roles: [...]role{fair, fair, reader}, acquires: 2, polls: 1, faults: faults{0, 0, 1, 0, 0, 0, 0}},
}

func TestNoStateBreaksAPromise(t *testing.T) {
	if *contenders != "" {
		states.Unbroken(t, map[string]system{*contenders: chosen(t)})
		return
	}
	states.Unbroken(t, systems)
	if suite.Full() {
		states.Unbroken(t, largeSystems)
	}
}

// chosen returns the system that the flags describe.
func chosen(t *testing.T) system {
	y := system{
		acquires: *acquisitions, polls: min(*pollsAtOnce, 2), tries: *tries, maxAdmitted: *admitted,
		faults: faults{uint8(*replays), uint8(*delays), uint8(*cancels), uint8(*deaths), uint8(*cuts), uint8(*losses), uint8(*forgeries)},
	}
	names := strings.Split(*contenders, ",")
	if len(names) > maxProcesses {
		t.Fatalf("-contenders: at most %d", maxProcesses)
	}
	for i, name := range names {
		if y.roles[i] = roles[name]; y.roles[i] == 0 {
			t.Fatalf("-contenders: %q is not one of plain, fair, batcher, writer, reader, both", name)
		}
	}
	return y
}

// Search implements states.System.
func (y system) Search() states.Found {
	return y.space().Search(func(s *state) string { return allWell(&y, s) }, stuck)
}
