package interrupt

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A Ledger is a file of effects that several processes append to. It stands for a service without transactions: an effect that
// is noted has happened, whatever happens to its process or to Redis.
type Ledger struct{ Path string }

// Add notes an effect of a key.
func (l Ledger) Add(key string, e Effect) error {
	f, err := os.OpenFile(l.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s %d\n", key, e.Answer, e.Attempt) // one write
	return errors.Join(err, f.Close())
}

// Of returns the effects of a key.
func (l Ledger) Of(key string) ([]Effect, error) {
	all, err := l.All()
	return all[key], err
}

// All returns all effects by key.
func (l Ledger) All() (map[string][]Effect, error) {
	all := make(map[string][]Effect)
	f, err := os.Open(l.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var key string
		var e Effect
		if _, err := fmt.Sscan(lines.Text(), &key, &e.Answer, &e.Attempt); err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		all[key] = append(all[key], e)
	}
	return all, lines.Err()
}
