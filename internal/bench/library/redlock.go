package library

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
)

var (
	redlockLibrary        = overNodes("lockmw-redlock")
	redlockNoTokenLibrary = overNodes("lockmw-redlock-notoken", redlock.WithoutToken())
)

func overNodes(name string, opts ...redlock.Option) Library {
	return Library{
		Name: name, Watchdog: true, Wakes: true, Ours: true, Variant: true, Several: true,
		Open: func(c Config) (Locker, error) { return openOverNodes(c, opts) },
	}
}

// over is this module's lock over several servers with its defaults.
type over struct {
	rdbs   []*redis.Client
	nodes  []*lockmw.Client
	locker *redlock.Locker
}

func openOverNodes(c Config, opts []redlock.Option) (Locker, error) {
	l := new(over)
	if err := l.open(c.servers(), opts); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *over) open(addrs []string, opts []redlock.Option) error {
	for _, addr := range addrs {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		l.rdbs = append(l.rdbs, rdb)
		node, err := lockmw.New(rdb)
		if err != nil {
			return err
		}
		l.nodes = append(l.nodes, node)
	}
	l.locker = redlock.New(l.nodes, opts...)
	return nil
}

// Lock implements Locker.
func (l *over) Lock(ctx context.Context, key string) (Hold, error) {
	return lockWith(ctx, l.locker, key)
}

// Close implements Locker.
func (l *over) Close() error {
	var all error
	if l.locker != nil {
		all = l.locker.Close()
	}
	for _, node := range l.nodes {
		all = errors.Join(all, node.Close())
	}
	for _, rdb := range l.rdbs {
		all = errors.Join(all, rdb.Close())
	}
	return all
}
