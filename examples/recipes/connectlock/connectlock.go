// Package connectlock locks unary calls of a connect service, with the interceptor of grpcmw. Copy it; docs/recipes.md describes it.
package connectlock

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Interceptor converts an interceptor of gRPC that passes responses on as they are, such as grpcmw.Unary but not grpcmw.Idempotent. The
// names of methods are the same: connect's Procedure constants. The headers of a call are its metadata. A status becomes an error with the
// same code, text and details; an error of connect stays as it is. Streams are not locked.
func Interceptor(unary grpc.UnaryServerInterceptor) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if req.Spec().IsClient {
				return next(ctx, req)
			}
			headers := make(metadata.MD)
			for name, values := range req.Header() {
				headers.Set(name, values...)
			}
			resp, err := unary(metadata.NewIncomingContext(ctx, headers), req.Any(), &grpc.UnaryServerInfo{FullMethod: req.Spec().Procedure},
				func(ctx context.Context, _ any) (any, error) { return next(ctx, req) })
			if err != nil {
				return nil, toConnect(err)
			}
			return resp.(connect.AnyResponse), nil
		}
	}
}

func toConnect(err error) error {
	if errors.As(err, new(*connect.Error)) {
		return err
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	converted := connect.NewError(connect.Code(s.Code()), errors.New(s.Message()))
	for _, detail := range s.Details() {
		if message, isProto := detail.(proto.Message); isProto {
			if d, err := connect.NewErrorDetail(message); err == nil {
				converted.AddDetail(d)
			}
		}
	}
	return converted
}
