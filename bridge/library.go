package bridge

import (
	"embed"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// A library describes how a library takes its locks.
type library struct {
	name    string                    // as error texts show it
	keys    func(key string) []string // the old keys of a lock, on each server
	scripts *scripts
}

// scripts take, renew and release one old key. The comment at the top of each file describes its arguments and answer.
type scripts struct{ take, renew, release *redis.Script }

//go:embed lua
var texts embed.FS

// onString is for old keys that are strings with a random value. onHash is for the hashes of Redisson.
var onString, onHash = scriptsFor("string"), scriptsFor("hash")

func scriptsFor(of string) *scripts {
	load := func(verb string) *redis.Script {
		text, err := texts.ReadFile("lua/" + verb + "_" + of + ".lua")
		if err != nil {
			panic(err)
		}
		return redis.NewScript(string(text))
	}
	return &scripts{take: load("take"), renew: load("renew"), release: load("release")}
}

// single is a library with one old key for each lock.
func single(name string, keyOf func(string) string, s *scripts) library {
	return library{name: name, scripts: s, keys: func(key string) []string { return []string{keyOf(key)} }}
}

func sameKey(key string) string { return key }

// majorityOf is rueidislock: a hold needs majority of 2*majority-1 keys.
func majorityOf(prefix string, majority int) library {
	return library{name: "rueidislock", scripts: onString, keys: func(key string) []string {
		keys := make([]string, 2*majority-1)
		for i := range keys {
			keys[i] = prefix + ":" + strconv.Itoa(i) + ":" + key
		}
		return keys
	}}
}
