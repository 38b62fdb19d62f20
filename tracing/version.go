package tracing

import (
	"runtime/debug"
	"sync"
)

const modulePath = "github.com/lockmw/go"

// Version returns the version of this module, for the instrumentation scope: "v1.2.3", or "(devel)" if
// the build does not record it.
func Version() string { return version() }

var version = sync.OnceValue(func() string {
	const unknown = "(devel)"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == modulePath && m.Version != "" {
			return m.Version
		}
	}
	return unknown
})
