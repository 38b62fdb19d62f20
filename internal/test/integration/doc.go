// Package integration tests lockmw together with software of others that it does not import itself:
// exporters and collectors of OpenTelemetry, Prometheus, middleware for HTTP servers.
//
// It is a module of its own, so that users of lockmw inherit no versions of all that.
package integration
