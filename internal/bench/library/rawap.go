package library

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

var rawAPLibrary = Library{Name: "rawAP", Open: openRawAP, Sends: rawLibrary.Sends, Pipelines: true}

// openRawAP is raw over go-redis' AutoPipeline, through its blocking interface with default options, which its documentation
// recommends for callers that wait for each command.
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
