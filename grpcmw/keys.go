package grpcmw

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/go/lockmw"
)

// Keys maps the full name of a method to the key function of its calls. Use the constants that protoc generates as names. A method
// without an entry runs without a lock, and so does a call whose key function returns lockmw.ErrNoLock.
//
// The function gets the request message, or nil if the client streams its messages. It may return a status of its own.
type Keys map[string]lockmw.KeyFunc[any]

// For converts a key function of a request message for Keys. It is for unary calls and for streams of the server.
func For[Req any](key lockmw.KeyFunc[Req]) lockmw.KeyFunc[any] {
	return func(ctx context.Context, in any) (string, error) {
		req, ok := in.(Req)
		if !ok {
			return "", status.Errorf(codes.Internal, "the key is made of %T, not of %T", req, in)
		}
		return key(ctx, req)
	}
}

// ForContext converts a key function of the call's context for Keys. It is for any call, and the only way to lock a stream whose
// messages come from the client:
//
//	grpcmw.ForContext(lockmw.By("tenant", grpcmw.Metadata("x-tenant")))
func ForContext(key lockmw.KeyFunc[context.Context]) lockmw.KeyFunc[any] {
	return func(ctx context.Context, _ any) (string, error) { return key(ctx, ctx) }
}

// Metadata returns a function that returns the first value of a name in the metadata of a call; "" if there is none. The client
// can send any value, so use Metadata for what the client may choose, and not for an identity.
func Metadata(name string) func(context.Context) string {
	return func(ctx context.Context) string {
		if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
			return values[0]
		}
		return ""
	}
}
