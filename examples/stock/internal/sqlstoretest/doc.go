// Package sqlstoretest tests package idempotency/sqlstore in each database. It is here because the module lockmw has no drivers.
package sqlstoretest
