package env

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// Heard waits until the holder's process has dealt with what was published to it so far, if it may pass its lock on by itself:
// until it has heard of a call that is to have the lock before others it does not know of that call. One more message grants it
// what it has not asked for, and it cancels that.
func (e *Env) Heard(key string) {
	e.T.Helper()
	if e.Config.Bubble || e.Config.OverNodes != nil || e.Server == nil {
		return // a bubble's messages take no time
	}
	holder := e.Server.RedisKey(key)
	h, err := e.Server.Admin.HMGet(e.Ctx, holder, "id", "inbox", "mode", "tokens").Result()
	if err != nil || h[0] == nil || h[2] == nil || h[3] == nil {
		return // it has no run
	}
	id, inbox := fmt.Sprint(h[0]), fmt.Sprint(h[1])
	stem, _, _ := strings.Cut(id, ".")
	unknown := stem + "." + rand.Text()
	message := fmt.Sprintf("grant %s 1 1 1 0 %s", unknown, holder)
	publish := e.Server.Admin.Publish
	if strings.HasSuffix(inbox, "}") {
		publish = e.Server.Admin.SPublish
	}
	if n, err := publish(e.Ctx, inbox, message).Result(); err != nil || n == 0 {
		return // it hears nothing
	}
	e.Pace.Await(e.Soon, func() string {
		if e.Server.Admin.Exists(e.Ctx, holder+":done:"+unknown).Val() == 0 {
			return "it has not heard it yet"
		}
		return ""
	})
}
