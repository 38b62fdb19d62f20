package library

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
)

var lockmwLibrary = Library{Name: "lockmw", Open: openLockmw, Watchdog: true, Wakes: true, Ours: true}

// Lockmw is this module's plain lock with its defaults: a lease of 30 s under the watchdog.
type Lockmw struct {
	RDB    redis.UniversalClient
	Client *lockmw.Client
}

func openLockmw(c Config) (Locker, error) { return OpenLockmw(c) }

// OpenLockmw is for workloads that only lockmw supports.
func OpenLockmw(c Config, opts ...lockmw.ClientOption) (*Lockmw, error) {
	var rdb redis.UniversalClient = redis.NewClient(&redis.Options{Addr: c.Addr, Dialer: c.Dial})
	if c.Nodes != nil {
		rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Nodes, Dialer: c.Dial})
	}
	client, err := lockmw.New(rdb, opts...)
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return &Lockmw{RDB: rdb, Client: client}, nil
}

// Lock implements Locker.
func (l *Lockmw) Lock(ctx context.Context, key string) (Hold, error) {
	return lockWith(ctx, l.Client, key)
}

// LockAnnounced implements Announcer.
func (l *Lockmw) LockAnnounced(ctx context.Context, key string, waiting func()) (Hold, error) {
	return lockAnnounced(ctx, l.Client, key, waiting)
}

// Close implements Locker.
func (l *Lockmw) Close() error { return errors.Join(l.Client.Close(), l.RDB.Close()) }
