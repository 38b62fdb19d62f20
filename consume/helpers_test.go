package consume_test

import (
	"log/slog"

	"github.com/lockmw/go/lockmw"
)

// quiet is a Locker that logs nothing.
type quiet struct{ lockmw.Locker }

func (quiet) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
