// Package idempotency runs the work of a key once, and gives every repetition the first answer. A lock stops overlap, not
// repetition: two clicks one after the other still make two orders. With a Runner the second click gets the answer of the first.
//
//	once := idempotency.New(locks)
//	order, err := idempotency.Do(ctx, once, idempotency.Key{Scope: userID, ID: clientKey}, cart, idempotency.Refuse, placeOrder)
//
// For HTTP use httpmw.Idempotent, which reads the client's Idempotency-Key header, and for tasks of asynq asynqmw.Deduplicate.
//
// # What is promised
//
// Within the TTL a key has one recorded answer, for one scope and one request. A run that leaves no outcome, because its process
// crashed, its lock was lost, it panicked or returned an error, makes the outcome unknown. Then the Policy decides.
//
// # What is not promised
//
// After its TTL a key is new again. The same is true if Redis loses or evicts its record. A process that was suspended
// may still do an external effect after another run has begun; services that accept one should get the token of
// lockmw.FromContext.
//
// # Where records are
//
// The records of a Client are in its Redis, next to its locks. The records of a Local are in its process. WithStore sets another
// store: with package idempotency/sqlstore the record is a row of the handler's own database, and effects in that database
// happen once.
package idempotency
