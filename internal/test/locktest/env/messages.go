package env

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/go/internal/deadlock"
)

// AwaitMessages waits until the holder's process has handled all messages published to it so far. Only a process that passes
// locks on internally needs this: it must know of a call that another process queued ahead of its own. AwaitMessages publishes
// one more message, a question of deadlock detection, and waits for the answer.
func (e *Env) AwaitMessages(key string) {
	e.T.Helper()
	if e.Config.Bubble || e.Config.OverNodes != nil || e.Server == nil {
		return // messages take no time in a bubble
	}
	admin := e.Server.Admin
	h, err := admin.HMGet(e.Ctx, e.Server.RedisKey(key), "inbox", "mode", "tokens").Result()
	if err != nil || h[0] == nil || h[1] == nil || h[2] == nil {
		return // not a grant batch
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
	if _, err := sub.ReceiveTimeout(e.Ctx, Patience); err != nil {
		e.T.Fatal(err)
	}
	publish := admin.Publish
	if strings.HasSuffix(inbox, "}") {
		publish = admin.SPublish
	}
	for number := 1; ; number++ { // the process may not know the secret at the first question
		question := deadlock.Seal(secret, inbox, fmt.Sprintf(`{"n":%d,"f":%q,"q":{}}`, number, answers))
		if n, err := publish(e.Ctx, inbox, question).Result(); err != nil || n == 0 {
			return // not subscribed
		}
		if _, err := sub.ReceiveTimeout(e.Ctx, time.Second); err == nil {
			return
		}
		if number > 20 {
			e.T.Fatal("the holder's process does not answer")
		}
	}
}
