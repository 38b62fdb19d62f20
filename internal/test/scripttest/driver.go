package scripttest

import (
	_ "embed" // endafter.lua, refuse.lua
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/transport"
)

const (
	// Soon bounds something immediate, on a busy machine.
	Soon = 5 * time.Second
	// Lease is the default lease of an acquire or a poll.
	Lease = 30 * time.Second
	// AcceptWindow is how long a grant of a tidy Driver waits to be accepted: its checks take long on a busy machine.
	AcceptWindow = 20 * time.Second
	// MaxToken is the greatest number that the scripts can count to: in Lua the next one is not greater.
	MaxToken = 1<<53 - 1
)

// A Driver runs the scripts for one key, as often and as late as a test needs.
type Driver struct {
	*testing.T
	Redis *redis.Client // connected to the server
	Key   string
	Keys  *script.KeySet
	Tidy  bool      // the Redis keys are checked after each execution
	Began time.Time // no execution was earlier

	params  script.Params
	scripts *script.Set
	layout  script.Layout
	sender  *transport.Sender
	answer  *lastAnswer
}

// New returns a Driver for a key. Its scripts are those for a single plain server.
func New(t *testing.T, rdb *redis.Client, key string) *Driver {
	return newDriver(t, rdb, key, false).With(t)
}

// NewOnNode is New for the node of a Cluster that owns the slot of the key.
func NewOnNode(t *testing.T, rdb *redis.Client, key string) *Driver {
	return newDriver(t, rdb, key, true).With(t)
}

// NewShared is New for many tests in turn, each of which calls With.
func NewShared(f *testing.F, rdb *redis.Client, key string) *Driver {
	return newDriver(f, rdb, key, false)
}

func newDriver(t testing.TB, rdb *redis.Client, key string, cluster bool) *Driver {
	d := &Driver{
		Redis: rdb, Key: key, Began: time.Now(),
		params: script.DefaultParams(true),
		layout: script.NewLayout("lockmw", transport.Topology{Cluster: cluster}),
		sender: transport.NewSender(rdb, transport.Topology{Single: true}, time.Second, transport.Replicas{}),
		answer: new(lastAnswer),
	}
	keys := d.layout.KeySet(key)
	d.Keys = &keys
	d.scripts = script.NewSet(d.params)
	rdb.AddHook(d.answer)
	t.Cleanup(d.sender.Stop)
	return d
}

var (
	//go:embed endafter.lua
	endAfterLua string
	//go:embed refuse.lua
	refuseLua string
)

// EndAfter makes each execution of a script end with an error after so many writes, as a Cluster may end it.
func (d *Driver) EndAfter(writes int) { d.begin(fmt.Sprintf(endAfterLua, writes)) }

// Refuse makes the server refuse commands of scripts with that error.
func (d *Driver) Refuse(refusal string, commands ...string) {
	d.begin(fmt.Sprintf(refuseLua, refusal, strings.Join(commands, " ")))
}

func (d *Driver) begin(prelude string) { d.Change(func(p *script.Params) { p.Prelude = prelude }) }

// EndAtTheEnd ends what EndAfter and Refuse began.
func (d *Driver) EndAtTheEnd() { d.begin("") }

// Thoroughly makes d run the scripts without their fast paths.
func (d *Driver) Thoroughly() { d.Change(func(p *script.Params) { p.NoFastPaths = true }) }

// Change changes the texts of the scripts that d runs from now on.
func (d *Driver) Change(edit func(p *script.Params)) {
	edit(&d.params)
	d.scripts = script.NewSet(d.params)
}

// BeTidy makes d check the Redis keys after each execution. Grants then wait for AcceptWindow.
func (d *Driver) BeTidy() {
	d.Tidy = true
	d.Change(func(p *script.Params) { p.AcceptWindow = AcceptWindow })
}

// With returns a Driver of the same lock for another test.
func (d *Driver) With(t *testing.T) *Driver {
	with := *d
	with.T = t
	return &with
}

// newClient returns a client that does not repeat refused commands: go-redis would pause before each repetition.
func newClient(t *testing.T, s *redistest.Server) *redis.Client {
	t.Helper()
	return s.NewClient(t, func(o *redis.Options) { o.MaxRetries = -1 })
}

// OnEach runs test on each server, in parallel with other tests, and without the race detector: the scripts run one at a time.
func OnEach(t *testing.T, test func(d *Driver)) {
	race.FindsNothing(t)
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) { test(New(t, newClient(t, s), t.Name())) })
}

// OnEachTidy is OnEach with a check of the keys after each execution of a script.
func OnEachTidy(t *testing.T, test func(d *Driver)) {
	OnEach(t, func(d *Driver) {
		d.BeTidy()
		test(d)
	})
}

// OnEachCrowded is OnEachTidy for tests with so many tickets that a slow machine would take them for dead before the test ends:
// the embedded server's clock stands still.
func OnEachCrowded(t *testing.T, test func(d *Driver)) {
	race.FindsNothing(t)
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		if s.Mini != nil {
			s.Mini.SetTime(time.Now())
		}
		d := New(t, newClient(t, s), t.Name())
		d.BeTidy()
		test(d)
	})
}

// OnClock runs test on an embedded server whose clock stands still except when the test calls later.
func OnClock(t *testing.T, test func(d *Driver, later func(time.Duration))) {
	s := redistest.Mini(t)
	d := New(t, newClient(t, s), t.Name())
	d.Tidy = true
	now := time.Now()
	s.Mini.SetTime(now)
	test(d, func(by time.Duration) {
		now = now.Add(by)
		s.Mini.SetTime(now)
	})
}

// Untidy runs f without checking the keys after each execution.
func (d *Driver) Untidy(f func()) {
	tidy := d.Tidy
	d.Tidy = false
	f()
	d.Tidy = tidy
}

// Sibling returns the Redis keys of another lock.
func (d *Driver) Sibling(key string) script.KeySet { return d.layout.KeySet(key) }

// Inbox returns the channel of the process of an id.
func (d *Driver) Inbox(id string) string { return d.layout.InboxPrefix() + id }

// ID returns an id with that text, for which nothing has been sent. Its last character is a digit or a small letter.
func ID(text string) *script.ID {
	last := len(text) - 1
	stem := script.IDStem(text[:last])
	n, err := strconv.ParseUint(text[last:], 36, 64)
	id := stem.New(n)
	if err != nil || id.String() != text {
		panic("not an id: " + text)
	}
	return id
}

// IDs returns the texts of n ids, which begin with a letter.
func IDs(letter string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = letter + strconv.Itoa(i)
	}
	return all
}

// Copied returns an id whose acquire was sent twice.
func Copied(text string) *script.ID {
	id := ID(text)
	for range 2 {
		_, _ = id.MarshalBinary() // as go-redis does when it writes a command
	}
	return id
}

// PassToken waits until the server's clock, which is this machine's, is well past a token.
func PassToken(t testing.TB, token int64) {
	t.Helper()
	for end := time.Now().Add(Soon); time.Now().UnixMicro() <= token+1000; time.Sleep(time.Millisecond) { // polling
		if time.Now().After(end) {
			t.Fatal("the clock stands still")
		}
	}
}
