package doctor

import "strings"

// asynqCancel is the channel on which asynq.Inspector asks servers to cancel a task. An id that no task has is ignored.
const asynqCancel = "asynq:cancel"

// asynqDemand is what asynq 0.26 and asynqmw need in the Redis of the queues.
var asynqDemand = demand{
	check: "asynq", by: "asynq and asynqmw",
	names: func(tag string) *strings.Replacer {
		return strings.NewReplacer("KEY", "asynq:"+tag, "CHANNEL", asynqCancel)
	},
	patterns: map[string]string{"~": "~asynq:*", "&": "&" + asynqCancel},
	tries: triesOf(`
		ping; time; set KEY 1 ex 10; setex KEY 10 1; incr KEY; decr KEY; get KEY; exists KEY; expireat KEY 9999999999;
		expire KEY 10; pexpire KEY 10000; eval return(1) 1 KEY; evalsha 930269f31393d0be681588b6ab08dccee7d6bb67 1 KEY;
		del KEY; hset KEY a 1 b 2; pexpire KEY 10000; hget KEY a; hmget KEY a b; hvals KEY #tools;
		memory|usage KEY #tools; hdel KEY a b; lpush KEY a; rpush KEY b; pexpire KEY 10000; rpoplpush KEY KEY;
		lrange KEY 0 -1 #tools; llen KEY; lrem KEY 0 a; del KEY; sadd KEY a b; pexpire KEY 10000;
		smembers KEY #groups; sismember KEY a #tools; srandmember KEY 1; srem KEY a b; zadd KEY 1 a 2 b;
		pexpire KEY 10000; zcard KEY; zscore KEY a; zrank KEY a; zrange KEY 0 -1; zrevrange KEY 0 -1 #groups;
		zrangebyscore KEY -inf +inf; zremrangebyscore KEY 3 4; zremrangebyrank KEY 3 4; zrem KEY a b;
		setnx KEY 1 #tools; pexpire KEY 10000; del KEY; info server #tools; subscribe CHANNEL #cancelling;
		publish CHANNEL lockmw-doctor #cancelling`),
}
