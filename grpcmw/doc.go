// Package grpcmw locks calls of a gRPC service: one call at a time for each user, item or tenant, whichever server it reaches. It
// also runs each call once for its idempotency key.
//
//	locked := grpcmw.Keys{
//		pb.Shop_CreateOrder_FullMethodName: grpcmw.For(lockmw.By("user", (*pb.Order).GetUserId)),
//	}
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(grpcmw.Unary(locks, locked)),
//		grpc.ChainStreamInterceptor(grpcmw.Stream(locks, locked)),
//	)
//
// The order matters: recovery from panics, authentication, idempotency, lock.
//
// A call that does not get its lock ends with a status that names neither the key nor Redis: Aborted if the lock is busy,
// Unavailable if Redis is. These have a RetryInfo with the delay before the next attempt. [docs/recipes.md] lists all statuses.
//
// # What can go wrong
//
// The lock can be lost while the handler runs: Redis was unavailable for longer than the lease, the process was stopped, or the
// maximum hold of 5 minutes has ended. The handler's context then ends with cause lockmw.ErrLost, and the call ends with Internal,
// because its work may be partly done. A handler that does not watch its context may overlap with the next one. Work that must not
// happen twice checks the fencing token where it writes: see lockmw.Hold.Token and lockmw.Held.
//
// [docs/recipes.md]: https://github.com/lockmw/go/blob/main/docs/recipes.md
package grpcmw
