package observe

import "log/slog"

// LoggerOf returns the logger of a Locker with a Logger method, and otherwise the default logger.
func LoggerOf(locker any) *slog.Logger {
	if l, ok := locker.(interface{ Logger() *slog.Logger }); ok {
		if logger := l.Logger(); logger != nil {
			return logger
		}
	}
	return slog.Default()
}
