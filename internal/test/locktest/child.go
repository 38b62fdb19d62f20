package locktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// A childSpec says what a child process is to be.
type childSpec struct {
	Role   string // of roles
	Addr   string // of the server
	Prefix string
	Kind   string // Mode of the Config that makes the Locker; "" is that of the Client itself
}

// kind is the Kind of children that take locks as c's Locker does.
func (c Config) kind() string {
	if c.Wrap == nil {
		return ""
	}
	return c.Mode
}

// A role is what a child process does: it reads orders and writes reports, JSON values, and returns at
// the end of the orders (io.EOF).
type role func(c *lockmw.Client, locker lockmw.Locker, in *json.Decoder, out *json.Encoder) error

var roles = map[string]role{
	"holder": holderRole,
	"load":   loadRole,
}

// clientMode is the mode of a Client.
const clientMode = "exclusive"

// ChildMain is redistest.ChildMain for test binaries whose children take locks: TestMain calls it with
// the Configs whose Lockers they are to make.
func ChildMain(configs ...Config) {
	redistest.ChildMain(func(s childSpec, orders *json.Decoder, reports *json.Encoder) error {
		return s.run(configs, orders, reports)
	})
}

// run is the child's life.
func (s childSpec) run(configs []Config, orders *json.Decoder, reports *json.Encoder) error {
	do, ok := roles[s.Role]
	if !ok {
		return fmt.Errorf("no role %q", s.Role)
	}
	wrap, err := s.wrap(configs)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer rdb.Close()
	c, err := lockmw.New(rdb, lockmw.WithPrefix(s.Prefix), lockmw.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	if err != nil {
		return err
	}
	err = do(c, wrap(c), orders, reports)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	err = errors.Join(err, c.Close())
	if left := (*pace)(nil).await(patience, func() string { return engineGoroutine(leak.Goroutines{}) }); left != "" {
		err = errors.Join(err, errors.New(left))
	}
	return err
}

// wrap finds what makes the Locker of a Client.
func (s childSpec) wrap(configs []Config) (func(*lockmw.Client) lockmw.Locker, error) {
	for _, c := range configs {
		if c.Mode == s.Kind && c.Wrap != nil {
			return func(l *lockmw.Client) lockmw.Locker { return c.sides(c.Wrap(l)) }, nil
		}
	}
	if s.Kind != "" && s.Kind != clientMode {
		return nil, fmt.Errorf("TestMain calls ChildMain without the Config of mode %q", s.Kind)
	}
	return func(c *lockmw.Client) lockmw.Locker { return c }, nil
}
