// Package several tests faults that need several servers, with the same judges as all other scenarios. It contains only
// tests.
package several
