package sqlstore

import (
	"context"
	"fmt"

	"github.com/lockmw/go/lockmw"
)

// batch is how many rows Cleanup deletes in one transaction.
const batch = 500

// Cleanup deletes up to limit records that have expired, the oldest first, and returns how many it has deleted: fewer than limit
// if there are no more. It does so in batches of 500, each in its own transaction, and skips rows that are locked. Any number of
// processes may call it concurrently. Expired records have no effect, so it only saves space.
//
// With an error, deleted is what was deleted before. The error wraps lockmw.ErrInvalidOption if limit is not positive.
func (s *Store) Cleanup(ctx context.Context, limit int) (deleted int, err error) {
	if limit <= 0 {
		return 0, failed("cleanup", "", fmt.Errorf("%w: a limit of %d, must be positive", lockmw.ErrInvalidOption, limit))
	}
	for deleted < limit {
		most := min(batch, limit-deleted)
		n, err := s.removeBatch(ctx, most)
		deleted += n
		if err != nil {
			return deleted, failed("cleanup", "", err)
		}
		if n < most {
			break
		}
	}
	return deleted, nil
}

// removeBatch deletes up to most expired rows.
func (s *Store) removeBatch(ctx context.Context, most int) (n int, err error) {
	if s.sql.expired == "" {
		return execute(ctx, s.db, s.sql.remove, most)
	}
	err = s.inTx(ctx, func(q querier) error {
		keys, err := s.lockExpired(ctx, q, most)
		for _, key := range keys {
			if err == nil {
				_, err = execute(ctx, q, s.sql.remove, key)
			}
		}
		n = len(keys)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// lockExpired locks up to most expired rows, and returns their keys.
func (s *Store) lockExpired(ctx context.Context, q querier, most int) (keys []string, err error) {
	rows, err := q.QueryContext(ctx, s.sql.expired, most)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, rows.Err()
}
