// Package deadlocks tests that real processes find the deadlocks between them, on a server and in a Cluster.
package deadlocks
