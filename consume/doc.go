// Package consume handles the messages of a queue or a log, such as Kafka, NATS or Redis streams, one at a time for each key.
//
//	orders := consume.New(locks, lockmw.By("order", Message.OrderID), handle, deadLetter)
//	partition := orders.Open(acknowledge)
//	for {
//		m := … // receive a message
//		if err := partition.Submit(ctx, m); err != nil {
//			break
//		}
//	}
//	notDone := partition.Close(ctx)
//
// A Queue knows the locks, the keys and the handler. A Partition of it receives messages that arrive and end together: a partition of
// Kafka, a stream, a subscription. Use as many as the broker assigns to you.
//
// # What is promised
//
//   - Exclusion. A handler runs under the lock of its message's key. So it excludes the handlers of other partitions and processes, and
//     all requests and tasks that lock the same key, as exactly as the lock does: see package lockmw.
//   - Order. Messages of one key in one Partition are handled one after the other, in the order in which they were submitted. Messages
//     of other keys run meanwhile.
//   - A message that fails stays first in its key, and is tried again. A later message of the key never overtakes it.
//   - Contiguous commits. OpenInOrder reports a message only after all messages before it.
//   - Bounds. Submit waits while a Partition has WithLimit messages that are not done.
//   - Hand back. Close starts nothing new, waits for the handlers that run, and returns the messages that are not done.
//
// Two consumers of one Redis stream both receive messages of all keys. They exclude each other but keep no order: the broker may deliver
// the second message of a key to a faster process. Partition by key where order matters. See [docs/consumers.md].
//
// # What can go wrong
//
// A message may be handled more than once, as with the broker alone: after a crash, and after Close ended its handler. Its lock may be
// lost while it is handled: its context then ends, and the attempt counts as failed with lockmw.ErrLost.
//
// Whether a message that fails is tried forever is for GiveUp to decide. Redis being unreachable is no failure of a message: it waits.
//
// [docs/consumers.md]: https://github.com/lockmw/go/blob/main/docs/consumers.md
package consume
