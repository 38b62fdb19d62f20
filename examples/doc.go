// Package examples shows how services use the library. Examples of single functions are in the packages of these functions.
//
//	orders    a flash sale over HTTP and asynq, without and with locks
//	stock     twenty ways to sell the last items, and the faults of each
//	market    a marketplace in Redis, guarded by WATCH, locks or Lua
//	onekey    one lock for a route, a task, a job and a message
//	migrate   from redsync to lockmw in two deployments, under load
//	redlock   a lock over five Redis servers, some of which are killed
//	recipes   locks for connect, and a receiver of webhooks, to copy
package examples
