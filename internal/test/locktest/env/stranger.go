package env

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Unchanged checks that key's holder hash has not changed, apart from its TTL.
func (s *Server) Unchanged(key, before string) {
	s.e.T.Helper()
	if now := s.Show(s.RedisKey(key)); cutTTL(now) != cutTTL(before) {
		s.e.T.Errorf("the holder hash was %s and is %s", before, now)
	}
}

func cutTTL(shown string) string {
	return shown[:strings.LastIndexByte(shown, ' ')+1]
}

// Plants are foreign values of each Redis type.
var Plants = map[string]func(s *Server, at string) error{
	"string": func(s *Server, at string) error { return s.Admin.Set(s.e.Ctx, at, "a stranger's", 0).Err() },
	"list":   func(s *Server, at string) error { return s.Admin.RPush(s.e.Ctx, at, "a", "b").Err() },
	"set":    func(s *Server, at string) error { return s.Admin.SAdd(s.e.Ctx, at, "a", "b").Err() },
	"zset": func(s *Server, at string) error {
		return s.Admin.ZAdd(s.e.Ctx, at, redis.Z{Score: 1, Member: "a"}).Err()
	},
	"hash": func(s *Server, at string) error { return s.Admin.HSet(s.e.Ctx, at, "9f8c:12", 1).Err() }, // such as Redisson's
	"stream": func(s *Server, at string) error {
		return s.Admin.XAdd(s.e.Ctx, &redis.XAddArgs{Stream: at, Values: []string{"a", "b"}}).Err()
	},
}

// Plant stores a foreign value at a key. check checks that the value is unchanged, and removes it.
func (s *Server) Plant(kind, at string) (check func()) {
	s.e.T.Helper()
	if err := Plants[kind](s, at); err != nil {
		s.e.T.Fatal(err)
	}
	before := s.Show(at)
	return func() {
		s.e.T.Helper()
		if after := s.Show(at); after != before {
			s.e.T.Errorf("a %s at %s was %s and is %s", kind, at, before, after)
		}
		s.Admin.Del(s.e.Ctx, at)
	}
}

// Show returns a key's type, value and TTL.
func (s *Server) Show(at string) string {
	kind := s.Admin.Type(s.e.Ctx, at).Val()
	var what any
	switch kind {
	case "string":
		what = s.Admin.Get(s.e.Ctx, at).Val()
	case "list":
		what = s.Admin.LRange(s.e.Ctx, at, 0, -1).Val()
	case "set":
		what = len(s.Admin.SMembers(s.e.Ctx, at).Val())
	case "zset":
		what = s.Admin.ZRangeWithScores(s.e.Ctx, at, 0, -1).Val()
	case "hash":
		what = s.Admin.HGetAll(s.e.Ctx, at).Val()
	case "stream":
		what = s.Admin.XRange(s.e.Ctx, at, "-", "+").Val()
	}
	return fmt.Sprintf("%s %v for %v", kind, what, s.Admin.PTTL(s.e.Ctx, at).Val())
}
