// Package parked reads which tasks of asynq wait for a lock. Package asynqmw puts them on the list of their lock, next to asynq's
// own keys; whoever looks at locks reads these lists without knowing asynq.
package parked

// AllQueues is asynq's set of all queues.
const AllQueues = "asynq:queues"

// InQueue returns a key of a queue, as asynq 0.26 lays it out.
func InQueue(queue, name string) string { return "asynq:{" + queue + "}:" + name }

// TaskPrefix is what the keys of a queue's tasks begin with.
func TaskPrefix(queue string) string { return InQueue(queue, "t:") }

// LocksOf is the set of the locks that have a list in a queue, by their Redis keys.
func LocksOf(queue string) string { return InQueue(queue, "lockmw:locks") }

// ListOf is the list of a lock in a queue: ids of tasks, by when they came first (µs).
func ListOf(queue, lock string) string { return InQueue(queue, "lockmw:parked:") + lock }
