package library

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

var rawAPLibrary = Library{Name: "rawAP", Open: openRawAP, Sends: rawLibrary.Sends, Pipelines: true}

// openRawAP is raw by way of go-redis' AutoPipeline: its blocking face with its default options, which
// their documentation recommends for callers that wait for each command.
func openRawAP(c Config) (Locker, error) {
	rdb := redis.NewClient(&redis.Options{Addr: c.Addr})
	ap, err := rdb.AutoPipeline()
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return &raw{
		client: ap, most: mostBackoff(c.Wait),
		close: func() error { return errors.Join(ap.Close(), rdb.Close()) },
	}, nil
}
