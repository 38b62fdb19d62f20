// Package integration tests lockmw together with software that lockmw itself does not import: exporters and collectors of
// OpenTelemetry, Prometheus, middleware for HTTP servers.
//
// It is a module of its own, so that users of lockmw do not inherit its dependencies.
package integration
