package echomw

import (
	"context"

	"github.com/labstack/echo/v5"

	"github.com/lockmw/go/httpmw"
)

// echoKey is the key of the echo context in the context of a request.
type echoKey struct{}

// Claim uses an identity that earlier middleware has put into the echo context, such as the authenticated user, as a part of the
// key:
//
//	httpmw.By("user", echomw.Claim(func(c *echo.Context) (string, bool) { id, ok := c.Get("user").(string); return id, ok }))
//
// If from returns false or an empty string, the request is refused with httpmw.ErrNoClaim and status 401. Claim panics if from is
// nil.
func Claim(from func(*echo.Context) (string, bool)) httpmw.Part {
	if from == nil {
		panic("echomw: Claim: the function is nil")
	}
	return httpmw.Claim(func(ctx context.Context) (string, bool) {
		c, ok := ctx.Value(echoKey{}).(*echo.Context)
		if !ok { // mounted without this package
			return "", false
		}
		return from(c)
	})
}
