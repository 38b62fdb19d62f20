package observe

import "log/slog"

// LoggerOf returns the logger of a Locker that has a method Logger, and otherwise the default one.
func LoggerOf(locker any) *slog.Logger {
	if l, ok := locker.(interface{ Logger() *slog.Logger }); ok {
		if logger := l.Logger(); logger != nil {
			return logger
		}
	}
	return slog.Default()
}
