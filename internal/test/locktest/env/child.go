package env

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

// A ChildSpec describes a child process.
type ChildSpec struct {
	Role    string   // known to ChildMain
	Addrs   []string // of the server, the Cluster nodes, or the Sentinels
	Cluster bool
	Master  string // the master's name in Sentinel; "" without Sentinel
	Prefix  string
	Slotted bool   // with WithSlottedKeys
	Kind    string // Mode of the Config that makes the Locker; "" for the Client itself
}

// A Role is what a child process does: it reads orders and writes reports, both as JSON values. It returns at the end of the
// orders (io.EOF).
type Role func(c *lockmw.Client, locker lockmw.Locker, in *json.Decoder, out *json.Encoder) error

// Roles are the roles of child processes, by name.
type Roles map[string]Role

// HolderRoles has the role of a child that takes and releases locks on order.
var HolderRoles = Roles{holderRole: hold}

// holderRole is the name of that role.
const holderRole = "holder"

// ChildMain is redistest.ChildMain for test binaries whose children take locks. TestMain calls it with the roles of the
// children and the Configs that make their Lockers.
func ChildMain(roles Roles, configs []Config) {
	redistest.ChildMain(func(s ChildSpec, orders *json.Decoder, reports *json.Encoder) error {
		return s.run(roles, configs, orders, reports)
	})
}

// run runs the child process.
func (s ChildSpec) run(roles Roles, configs []Config, orders *json.Decoder, reports *json.Encoder) error {
	do, ok := roles[s.Role]
	if !ok {
		return fmt.Errorf("no role %q", s.Role)
	}
	if s.Kind == NodesMode {
		return s.runOverNodes(do, configs, orders, reports)
	}
	wrap, err := s.wrap(configs)
	if err != nil {
		return err
	}
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: s.Addrs, MasterName: s.Master, IsClusterMode: s.Cluster})
	defer rdb.Close()
	opts := append(Config{Slotted: s.Slotted}.layout(s.Prefix), lockmw.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	c, err := lockmw.New(rdb, opts...)
	if err != nil {
		return err
	}
	err = do(c, wrap(c), orders, reports)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	err = errors.Join(err, c.Close())
	if left := Await(nil, Patience, func() string { return engineGoroutine(leak.Goroutines{}) }); left != "" {
		err = errors.Join(err, errors.New(left))
	}
	return err
}

// runOverNodes is run for a Locker over several nodes.
func (s ChildSpec) runOverNodes(do Role, configs []Config, orders *json.Decoder, reports *json.Encoder) error {
	var nodes []*lockmw.Client
	for _, addr := range s.Addrs {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		defer rdb.Close()
		c, err := lockmw.New(rdb, lockmw.WithPrefix(s.Prefix), lockmw.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
		if err != nil {
			return err
		}
		defer c.Close()
		nodes = append(nodes, c)
	}
	for _, c := range configs {
		if c.OverNodes == nil {
			continue
		}
		l := c.OverNodes(nodes)
		err := do(nil, l, orders, reports)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return errors.Join(err, l.Close())
	}
	return errors.New("TestMain calls Main without the Config of a Locker over nodes")
}

// wrap finds the function that makes the Locker of a Client.
func (s ChildSpec) wrap(configs []Config) (func(*lockmw.Client) lockmw.Locker, error) {
	for _, c := range configs {
		if c.Mode == s.Kind && c.Wrap != nil {
			return func(l *lockmw.Client) lockmw.Locker { return c.sides(c.Wrap(l)) }, nil
		}
	}
	if s.Kind != "" && s.Kind != ClientMode {
		return nil, fmt.Errorf("TestMain calls Main without the Config of mode %q", s.Kind)
	}
	return func(c *lockmw.Client) lockmw.Locker { return c }, nil
}
