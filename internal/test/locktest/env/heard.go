package env

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/go/internal/deadlock"
)

// Heard waits until the holder's process has dealt with what was published to it so far, if it may pass its lock on by itself:
// until it has heard of a call that is to have the lock before others it does not know of that call. One more message asks it
// what its waits block, as processes ask one another, and it answers.
func (e *Env) Heard(key string) {
	e.T.Helper()
	if e.Config.Bubble || e.Config.OverNodes != nil || e.Server == nil {
		return // a bubble's messages take no time
	}
	admin := e.Server.Admin
	h, err := admin.HMGet(e.Ctx, e.Server.RedisKey(key), "inbox", "mode", "tokens").Result()
	if err != nil || h[0] == nil || h[1] == nil || h[2] == nil {
		return // it has no run
	}
	secretKey := e.Server.Prefix + ":deadlock"
	if err := admin.SetNX(e.Ctx, secretKey, rand.Text(), time.Hour).Err(); err != nil {
		e.T.Fatal(err)
	}
	secret, err := admin.Get(e.Ctx, secretKey).Result()
	if err != nil {
		e.T.Fatal(err)
	}
	inbox, answers := fmt.Sprint(h[0]), e.Server.Prefix+":inbox:"+rand.Text()
	sub := admin.Subscribe(e.Ctx, answers)
	defer sub.Close()
	if _, err := sub.ReceiveTimeout(e.Ctx, e.Soon); err != nil {
		e.T.Fatal(err)
	}
	publish := admin.Publish
	if strings.HasSuffix(inbox, "}") {
		publish = admin.SPublish
	}
	for number := 1; ; number++ { // the first question may find a process that does not know the secret yet
		question := deadlock.Seal(secret, inbox, fmt.Sprintf(`{"n":%d,"f":%q,"q":{}}`, number, answers))
		if n, err := publish(e.Ctx, inbox, question).Result(); err != nil || n == 0 {
			return // it hears nothing
		}
		if _, err := sub.ReceiveTimeout(e.Ctx, time.Second); err == nil {
			return
		}
		if number > 20 {
			e.T.Fatal("the holder's process does not answer")
		}
	}
}
