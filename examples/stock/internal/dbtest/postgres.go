package dbtest

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockmw/go/internal/test/dbserver"
)

// Postgres starts a PostgreSQL server.
func Postgres(t testing.TB) *Server {
	t.Helper()
	admin, addr := start(t, "pgx",
		func(answers func(context.Context, string) error) *dbserver.Server {
			return dbserver.Postgres(t, answers)
		},
		func(addr string) string { return "postgres://admin@" + addr + "/postgres" })
	execute(t, admin,
		`CREATE ROLE shop LOGIN PASSWORD 'shop'`,
		`CREATE ROLE guest LOGIN PASSWORD 'guest'`,
		`CREATE DATABASE shop OWNER shop`)
	cfg, err := pgx.ParseConfig("postgres://admin@" + addr + "/shop")
	if err != nil {
		t.Fatal(err)
	}
	shop := stdlib.OpenDB(*cfg)
	t.Cleanup(func() { _ = shop.Close() })
	execute(t, shop, `REVOKE CREATE ON SCHEMA public FROM PUBLIC`, `GRANT CREATE ON SCHEMA public TO shop`)
	return &Server{scheme: "postgres", addr: addr, admin: only(shop)}
}

// only limits db to one connection.
func only(db *sql.DB) *sql.DB {
	db.SetMaxOpenConns(1)
	return db
}
