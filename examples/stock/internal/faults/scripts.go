package faults

import (
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/examples/internal/clock"
	"github.com/lockmw/go/examples/stock/internal/ways"
)

// unguarded: everything happens between reading and writing.
func unguarded() []Script {
	return []Script{
		{
			Way: "none", Name: "another process buys between read and write",
			Play: boughtMeanwhile,
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
		{
			Way: "none", Name: "a double click between read and write", Stock: 2,
			Play: doubleClick,
			Want: Facts{Sold: 2, Accepted: 2, Duplicates: 1},
		},
		{
			Way: "mutex-one", Name: "somebody else in this process buys between read and write",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Read))
				bob := s.begin(here, "bob")
				s.goOn(ann)
				s.end(bob)
			},
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "mutex", Name: "another process buys between read and write",
			Play: boughtMeanwhile,
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
	}
}

// boughtMeanwhile has ann read, bob buy the last one, and ann write.
func boughtMeanwhile(s *Stage) {
	ann := s.begin(here, "ann", stopAt(ways.Read))
	s.click(there, "bob")
	s.goOn(ann)
}

// doubleClick has ann read, and buy with a second click, and write.
func doubleClick(s *Stage) {
	first := s.begin(here, "ann", stopAt(ways.Read))
	s.click(there, "ann")
	s.goOn(first)
}

func inSQL() []Script {
	return []Script{
		{
			Way: "sql-condition", Name: "another process buys between check and write",
			Play: boughtMeanwhile,
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "sql-condition", Name: "a double click between check and write", Stock: 2,
			Play: doubleClick,
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "sql-for-update", Name: "another process wants to buy between read and write",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Read))
				bob := s.begin(there, "bob")
				s.goOn(ann)
				s.end(bob)
			},
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "sql-early-unlock", Name: "the next holder reads before the commit",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Unlocked))
				bob := s.begin(there, "bob", stopAt(ways.Read))
				s.goOn(ann, bob)
			},
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
		{
			Way: "sql-version", Name: "bought and returned between read and write (ABA)", Stock: 2,
			Play: boughtAndReturned,
			Want: Facts{Sold: 1, Accepted: 2}, // carl's was returned
		},
		{
			Way: "sql-value", Name: "bought and returned between read and write (ABA)", Stock: 2,
			Play: boughtAndReturned,
			Want: Facts{Sold: 2, Accepted: 3, Duplicates: 1},
		},
	}
}

// boughtAndReturned has ann read, and buy with a second click, and carl return one: the stock is again what ann has read.
func boughtAndReturned(s *Stage) {
	s.click(there, "carl")
	first := s.begin(here, "ann", stopAt(ways.Read))
	s.click(there, "ann")
	if s.err == nil {
		s.must(s.env.Books.Return(s.ctx, s.item(), "carl"))
	}
	s.goOn(first)
}

func bySetNX() []Script {
	return []Script{
		{
			Way: "setnx", Name: "the holder's process dies",
			Play: func(s *Stage) {
				s.kill(s.begin(here, "ann", stopAt(ways.Acquired)))
				s.click(there, "bob", hastily)
				s.stillTaken()
			},
			Want: Facts{Blocked: 1},
		},
		{
			Way: "setnx-expiry", Name: "a slow holder deletes the next one's lock", Stock: 2,
			Play: func(s *Stage) { deletesTheNextOnes(s, ways.Written) },
			Want: Facts{Sold: 3, Accepted: 3, Oversold: 1},
		},
		{
			Way: "setnx-value", Name: "the same, between check and delete", Stock: 2,
			Play: func(s *Stage) { deletesTheNextOnes(s, ways.Checked) },
			Want: Facts{Sold: 3, Accepted: 3, Oversold: 1},
		},
		{
			Way: "setnx-lua", Name: "a nested call waits for its own lock",
			Play: func(s *Stage) { s.click(here, "ann", nested, hastily) },
			Want: Facts{Blocked: 1},
		},
		{
			Way: "setnx-lua", Name: "work outlasts the expiry",
			Play: boughtMeanwhile,
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
		{
			Way: "setnx-count", Name: "the reply to a try is lost",
			Play: func(s *Stage) {
				s.click(here, "ann", losesReply)
				s.click(there, "bob", hastily) // nobody has the lock, and it is taken
			},
			Stock: 2, Want: Facts{Sold: 1, Accepted: 1, Blocked: 1},
		},
		{
			Way: "setnx-count", Name: "the holder's process is paused",
			Play: pausedHolder,
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
		{
			Way: "setnx-count", Name: "a fail-over loses the lock",
			Play: locksLost,
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
		{
			Way: "setnx-count", Name: "no queue: who comes last is served first", Stock: 2,
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Acquired))
				bob := s.begin(there, "bob", stopAt(ways.Busy)) // between two tries
				s.goOn(ann)
				s.click(here, "carl")
				s.goOn(bob)
				s.facts.Overtaken = 1 - s.facts.Blocked // bob found nothing left
			},
			Want: Facts{Sold: 2, Accepted: 2, Overtaken: 1},
		},
	}
}

// deletesTheNextOnes stops ann with her order stored, before she deletes the lock. When it has expired bob gets it. Then
// she deletes it, and carl gets it too.
func deletesTheNextOnes(s *Stage, before ways.Point) {
	ann := s.begin(here, "ann", stopAt(before))
	bob := s.begin(there, "bob", stopAt(ways.Read))
	s.goOn(ann)
	s.click(here, "carl")
	s.goOn(bob)
}

// pausedHolder stops ann's process while she has the lock, until bob has bought.
func pausedHolder(s *Stage) {
	ann := s.begin(here, "ann", stopAt(ways.Read))
	s.pause(here)
	s.click(there, "bob")
	s.resume(here)
	s.goOn(ann)
}

// locksLost has Redis forget ann's lock while her write is on the way, and bob buy.
func locksLost(s *Stage) {
	ann := s.begin(here, "ann", stopAt(ways.Sent))
	s.loseLocks()
	s.click(there, "bob")
	s.goOn(ann)
}

// stillTaken checks that the lock has no expiry: however long bob waits, he waits in vain.
func (s *Stage) stillTaken() {
	if s.err != nil {
		return
	}
	keys, err := s.env.Redis.Keys(s.ctx, s.env.Name+":lock:*").Result()
	s.must(err)
	for _, key := range keys {
		ttl, err := s.env.Redis.TTL(s.ctx, key).Result()
		s.must(err)
		if ttl != -1 {
			s.fail("the lock ends in %v", ttl)
		}
	}
	if len(keys) != 1 {
		s.fail("there are %d locks, not one", len(keys))
	}
}

func byMemcached() []Script {
	const way = "memcached"
	return []Script{
		{
			Way: way, Name: "a slow holder deletes the next one's lock", Stock: 2,
			Play: func(s *Stage) { deletesTheNextOnes(s, ways.Written) },
			Want: Facts{Sold: 3, Accepted: 3, Oversold: 1},
		},
		{
			Way: way, Name: "the lock is evicted",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Sent))
				if s.err == nil {
					key := s.env.Name + ":lock:" + s.item()
					s.must(s.memcached.Fill(s.ctx, key, strings.Repeat("x", 26)))
				}
				s.click(there, "bob")
				s.goOn(ann)
			},
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
		{
			Way: way, Name: "Memcached is restarted",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Sent))
				if s.err == nil {
					s.must(s.memcached.Restart(s.ctx))
				}
				s.click(there, "bob")
				s.goOn(ann)
			},
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
	}
}

func inRedis() []Script {
	return []Script{
		{
			Way: "lua-queue", Name: "a process dies between the script and the queue",
			Play: func(s *Stage) {
				s.kill(s.begin(here, "ann", stopAt(ways.Reserved)))
				s.noteMissing()
				s.reopen(here) // looks for such orders
				s.awaitRecovery()
			},
			Want: Facts{Sold: 1, Missing: 1, Recovered: 1},
		},
		{
			Way: "lua-queue", Name: "the worker of the queue dies",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Taken))
				s.kill(ann)
				s.noteMissing()
				s.endWorkersLease()
				s.reopen(ann.shop)
				s.awaitRecovery()
			},
			Want: Facts{Sold: 1, Accepted: 1, Missing: 1, Recovered: 1},
		},
		{
			Way: "watch", Name: "another process buys between read and EXEC",
			Play: boughtMeanwhile,
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "watch", Name: "a process dies between EXEC and the database",
			Play: func(s *Stage) {
				s.kill(s.begin(here, "ann", stopAt(ways.Reserved)))
				s.noteMissing()
			},
			Want: Facts{Missing: 1},
		},
	}
}

// endWorkersLease lets the lease that asynq gives a worker for its task have ended long ago: that takes 30 seconds, and
// asynq waits for 30 more.
func (s *Stage) endWorkersLease() {
	if s.err != nil {
		return
	}
	key := "asynq:{" + s.env.Name + "}:lease"
	tasks, err := s.env.Redis.ZRange(s.ctx, key, 0, -1).Result()
	s.must(err)
	if len(tasks) != 1 {
		s.fail("%d tasks are being worked on, not one", len(tasks))
		return
	}
	long := float64(time.Now().Add(-2 * time.Minute).Unix())
	s.must(s.env.Redis.ZAdd(s.ctx, key, redis.Z{Score: long, Member: tasks[0]}).Err())
}

func byLockmw() []Script {
	lost := Facts{Sold: 1, Accepted: 1, ToldOfLoss: 1}
	return []Script{
		{
			Way: "lockmw-item", Name: "the holder's process dies",
			Play: func(s *Stage) {
				s.kill(s.begin(here, "ann", stopAt(ways.Acquired)))
				s.click(there, "bob")
			},
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "lockmw-item", Name: "a nested call",
			Play: func(s *Stage) { s.click(here, "ann", nested, hastily) },
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "lockmw-item", Name: "work outlasts the lease",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Read))
				bob := s.begin(there, "bob")
				s.outlastLease()
				s.goOn(ann)
				s.end(bob)
			},
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{Way: "lockmw-item", Name: "the holder's process is paused", Play: pausedHolder, Want: lost},
		{
			Way: "lockmw-item", Name: "a fail-over loses the lock of a write that is on its way",
			Play: locksLost,
			Want: Facts{Sold: 2, Accepted: 1, Oversold: 1, ToldOfLoss: 1}, // when she has written
		},
		{
			Way: "lockmw-fine", Name: "a double click", Stock: 2,
			Play: doubleClick,
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{Way: "lockmw-token", Name: "a fail-over loses the lock of a write that is on its way", Play: locksLost, Want: lost},
		{
			Way: "lockmw-token", Name: "the same, and the older holder writes first",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Sent))
				s.loseLocks()
				bob := s.begin(there, "bob", stopAt(ways.Sent))
				s.goOn(ann, bob)
			},
			Want: Facts{Sold: 1, ToldOfLoss: 2}, // ann when she has written, bob instead of that
		},
		{Way: "lockmw-failover", Name: "a fail-over loses the lock of a write that is on its way", Play: locksLost, Want: lost},
	}
}

// outlastLease lets a lease go by: nothing else shows that it was renewed.
func (s *Stage) outlastLease() {
	if s.err == nil {
		s.must(clock.Sleep(s.ctx, 2*Lease))
	}
}
