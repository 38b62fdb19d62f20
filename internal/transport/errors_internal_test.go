package transport

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
)

// Before Redis 7.0 the error of a command in a script follows the place in the script.
func TestErrorsOfOldServersAreClassifiedLikeThoseOfNewOnes(t *testing.T) {
	const place = "ERR Error running script (call to f_ac4011b8ae24368386312458d8858be0c9e02987): @user_script:568: @user_script: 568: "
	for text, is := range map[string]func(error) bool{
		"-MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk": IsFull,
		"-OOM command not allowed when used memory > 'maxmemory'.":                                            IsFull,
		"-READONLY You can't write against a read only replica.":                                              IsTemporary,
		"-NOREPLICAS Not enough good replicas to write.":                                                      IsTemporary,
		"The user executing the script can't run this command or subcommand":                                  IsFinal,
		"The user executing the script can't access at least one of the keys mentioned in the command":        IsFinal,
	} {
		if err := reply(place + text); !is(err) {
			t.Errorf("not recognised: %s", err)
		}
	}
	for _, other := range []error{nil, reply(place + "attempt to index a nil value (OOM )"), reply("ERR something about @user_script: 1: -OOM ")} {
		if IsFull(other) || IsTemporary(other) || IsFinal(other) {
			t.Errorf("misunderstood: %v", other)
		}
	}
}

// A server that cannot run the scripts will not be able to in a moment.
func TestErrorsOfUnfitServersAreFinal(t *testing.T) {
	for _, u := range unfit {
		if err := reply("ERR " + u.text); !IsFinal(err) {
			t.Errorf("not final: %s", err)
		}
	}
}

// A user may have no right to a key that a command names, to one that a script uses, or to a command.
func TestErrorsAboutAKeyAreToldFromErrorsAboutAServer(t *testing.T) {
	s := redistest.Redis(t)
	if err := redistest.SetUser(t.Context(), s.NewClient(t), "app", "on", ">right", "~mine", "+eval", "+get", "+hget"); err != nil {
		t.Fatal(err)
	}
	rdb := s.NewClient(t, func(o *redis.Options) { o.Username, o.Password = "app", "right" })
	for _, err := range []error{
		rdb.Get(t.Context(), "other").Err(),
		rdb.Eval(t.Context(), "return redis.call('GET', 'other')", []string{"mine"}).Err(),
		Failure(reply("WRONGTYPE Operation against a key holding the wrong kind of value")),
		Failure(reply("NOPERM this user has no permissions to access one of the keys used as arguments")), // before Redis 7.0
		reply("ERR Error running script (call to f_ac4011b8): @user_script:568: @user_script: 568: " +
			"The user executing the script can't access at least one of the keys mentioned in the command arguments"),
	} {
		if !IsAboutKey(err) {
			t.Errorf("not about a key: %v", err)
		}
	}
	for _, err := range []error{
		nil,
		rdb.Set(t.Context(), "mine", 1, 0).Err(),
		rdb.Eval(t.Context(), "return redis.call('SET', 'mine', 1)", []string{"mine"}).Err(),
		reply("NOPERM this user has no permissions to access one of the channels used as arguments"),
		reply("CROSSSLOT Keys in request don't hash to the same slot"),
	} {
		if IsAboutKey(err) {
			t.Errorf("about a key: %v", err)
		}
	}
}
