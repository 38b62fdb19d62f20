// Package kind lets packages fairlock and rwlock make a lockmw.Client take locks of another mode, without
// the Client showing how to its users.
package kind

import "github.com/lockmw/go/internal/core"

// New is set by package lockmw. Of a *lockmw.Client and a []lockmw.Option, which take precedence over
// the Client's, it makes a Locker that also has the methods TryLock and Downgrade.
var New func(client any, mode core.Mode, options any) (locker any, err error)
