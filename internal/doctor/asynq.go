package doctor

const (
	// asynqCancel is the channel on which asynq.Inspector asks servers to cancel a task. An id that no task has is ignored.
	asynqCancel = "asynq:cancel"

	forAsynqInspector = "for asynq.Inspector and asynq's tools"
	forGroups         = "for groups of tasks (asynq.Group)"
	forCancelling     = "for asynq.Inspector.CancelProcessing; without it, each asynq server logs an error every 5 s"
)

// asynqDemand is what asynq 0.26 and asynqmw need in the Redis of the queues.
var asynqDemand = demand{
	check: "asynq", by: "asynq and asynqmw",
	names: func(tag string) map[any]any {
		return map[any]any{scratchKey: "asynq:" + tag, scratchChannel: asynqCancel}
	},
	patterns: map[string]string{"~": "~asynq:*", "&": "&" + asynqCancel},
	tries: []try{
		{right: "ping", command: []any{"ping"}},
		{right: "time", command: []any{"time"}},
		{right: "set", command: []any{"set", scratchKey, "1", "ex", "10"}},
		{right: "setex", command: []any{"setex", scratchKey, "10", "1"}},
		{right: "incr", command: []any{"incr", scratchKey}},
		{right: "decr", command: []any{"decr", scratchKey}},
		{right: "get", command: []any{"get", scratchKey}},
		{right: "exists", command: []any{"exists", scratchKey}},
		{right: "expireat", command: []any{"expireat", scratchKey, "9999999999"}},
		{right: "expire", command: []any{"expire", scratchKey, "10"}},
		{right: "pexpire", command: []any{"pexpire", scratchKey, "10000"}},
		{right: "eval", command: []any{"eval", "return 1", "1", scratchKey}},
		{right: "evalsha", command: []any{"evalsha", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "1", scratchKey}}, // of that script
		{right: "del", command: []any{"del", scratchKey}},
		{right: "hset", command: []any{"hset", scratchKey, "a", "1", "b", "2"}},
		{right: "pexpire", command: []any{"pexpire", scratchKey, "10000"}},
		{right: "hget", command: []any{"hget", scratchKey, "a"}},
		{right: "hmget", command: []any{"hmget", scratchKey, "a", "b"}},
		{right: "hvals", command: []any{"hvals", scratchKey}, only: forAsynqInspector},
		{right: "memory|usage", command: []any{"memory", "usage", scratchKey}, only: forAsynqInspector},
		{right: "hdel", command: []any{"hdel", scratchKey, "a", "b"}},
		{right: "lpush", command: []any{"lpush", scratchKey, "a"}},
		{right: "rpush", command: []any{"rpush", scratchKey, "b"}},
		{right: "pexpire", command: []any{"pexpire", scratchKey, "10000"}},
		{right: "rpoplpush", command: []any{"rpoplpush", scratchKey, scratchKey}},
		{right: "lrange", command: []any{"lrange", scratchKey, "0", "-1"}, only: forAsynqInspector},
		{right: "llen", command: []any{"llen", scratchKey}},
		{right: "lrem", command: []any{"lrem", scratchKey, "0", "a"}},
		{right: "del", command: []any{"del", scratchKey}},
		{right: "sadd", command: []any{"sadd", scratchKey, "a", "b"}},
		{right: "pexpire", command: []any{"pexpire", scratchKey, "10000"}},
		{right: "smembers", command: []any{"smembers", scratchKey}, only: forGroups},
		{right: "sismember", command: []any{"sismember", scratchKey, "a"}, only: forAsynqInspector},
		{right: "srandmember", command: []any{"srandmember", scratchKey, "1"}},
		{right: "srem", command: []any{"srem", scratchKey, "a", "b"}},
		{right: "zadd", command: []any{"zadd", scratchKey, "1", "a", "2", "b"}},
		{right: "pexpire", command: []any{"pexpire", scratchKey, "10000"}},
		{right: "zcard", command: []any{"zcard", scratchKey}},
		{right: "zscore", command: []any{"zscore", scratchKey, "a"}},
		{right: "zrank", command: []any{"zrank", scratchKey, "a"}},
		{right: "zrange", command: []any{"zrange", scratchKey, "0", "-1"}},
		{right: "zrevrange", command: []any{"zrevrange", scratchKey, "0", "-1"}, only: forGroups},
		{right: "zrangebyscore", command: []any{"zrangebyscore", scratchKey, "-inf", "+inf"}},
		{right: "zremrangebyscore", command: []any{"zremrangebyscore", scratchKey, "3", "4"}},
		{right: "zremrangebyrank", command: []any{"zremrangebyrank", scratchKey, "3", "4"}},
		{right: "zrem", command: []any{"zrem", scratchKey, "a", "b"}},
		{right: "setnx", command: []any{"setnx", scratchKey, "1"}, only: forAsynqInspector}, // to pause a queue
		{right: "pexpire", command: []any{"pexpire", scratchKey, "10000"}},
		{right: "del", command: []any{"del", scratchKey}},
		{right: "info", command: []any{"info", "server"}, only: forAsynqInspector},
		{right: "subscribe", command: []any{"subscribe", scratchChannel}, only: forCancelling},
		{right: "publish", command: []any{"publish", scratchChannel, "lockmw-doctor"}, only: forCancelling},
	},
}
