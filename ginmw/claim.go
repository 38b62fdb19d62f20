package ginmw

import (
	"context"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/go/httpmw"
)

// ginKey is the key of the gin context in the context of a request.
type ginKey struct{}

// Claim uses an identity that earlier middleware has put into the gin context, such as the authenticated user, as a part of the
// key:
//
//	httpmw.By("user", ginmw.Claim(func(c *gin.Context) (string, bool) { return c.GetString("user"), true }))
//
// If from returns false or an empty string, the request is refused with httpmw.ErrNoClaim and status 401. Claim panics if from is
// nil.
func Claim(from func(*gin.Context) (string, bool)) httpmw.Part {
	if from == nil {
		panic("ginmw: Claim: the function is nil")
	}
	return httpmw.Claim(func(ctx context.Context) (string, bool) {
		c, ok := ctx.Value(ginKey{}).(*gin.Context)
		if !ok { // mounted without this package
			return "", false
		}
		return from(c)
	})
}
