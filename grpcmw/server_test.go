package grpcmw_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/lockmw/go/internal/test/mounttest"
)

// A shop has a method of each kind, which a function handles.
type shop struct {
	pb.UnimplementedTestServiceServer
	handle func(context.Context) error
}

// do calls the function, and turns its own error into a status.
func (s shop) do(ctx context.Context) error {
	err := s.handle(ctx)
	if errors.Is(err, mounttest.ErrNoStock) {
		return status.Error(codes.NotFound, err.Error())
	}
	return err
}

func (s shop) EmptyCall(ctx context.Context, in *pb.Empty) (*pb.Empty, error) { return in, s.do(ctx) }

func (s shop) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: in.GetPayload()}, s.do(ctx)
}

func (s shop) StreamingOutputCall(in *pb.StreamingOutputCallRequest, out grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	if err := s.do(out.Context()); err != nil {
		return err
	}
	return out.Send(&pb.StreamingOutputCallResponse{Payload: in.GetPayload()})
}

func (s shop) StreamingInputCall(in grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
	if err := s.do(in.Context()); err != nil {
		return err
	}
	return in.SendAndClose(new(pb.StreamingInputCallResponse))
}

func (s shop) FullDuplexCall(both grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	if err := s.do(both.Context()); err != nil {
		return err
	}
	return both.Send(new(pb.StreamingOutputCallResponse))
}

// serve starts a server with the interceptors and returns its client.
func serve(t *testing.T, handle func(context.Context) error, options ...grpc.ServerOption) pb.TestServiceClient {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(options...)
	pb.RegisterTestServiceServer(server, shop{handle: handle})
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return pb.NewTestServiceClient(conn)
}

// of returns the payload that names a user.
func of(user string) *pb.Payload { return &pb.Payload{Body: []byte(user)} }

// as puts a user into the metadata of a call.
func as(ctx context.Context, user string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-user", user)
}

// calls are the ways to call a method, by its kind.
var calls = map[string]func(ctx context.Context, c pb.TestServiceClient, user string) error{
	"unary": func(ctx context.Context, c pb.TestServiceClient, user string) error {
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: of(user)})
		return err
	},
	"server stream": func(ctx context.Context, c pb.TestServiceClient, user string) error {
		out, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{Payload: of(user)})
		if err != nil {
			return err
		}
		return toEnd(out.Recv)
	},
	"client stream": func(ctx context.Context, c pb.TestServiceClient, user string) error {
		in, err := c.StreamingInputCall(as(ctx, user))
		if err != nil {
			return err
		}
		_, err = in.CloseAndRecv()
		return err
	},
	"both": func(ctx context.Context, c pb.TestServiceClient, user string) error {
		both, err := c.FullDuplexCall(as(ctx, user))
		if err != nil {
			return err
		}
		return toEnd(both.Recv)
	},
}

// toEnd receives until the stream ends.
func toEnd[M any](receive func() (M, error)) error {
	for {
		if _, err := receive(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// retryDelay returns the delay in the RetryInfo of a status; 0 if it has none.
func retryDelay(s *status.Status) time.Duration {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

var errPanic = status.Error(codes.Internal, "the handler panicked")

func recoverUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	return handler(ctx, req)
}

func recoverStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	return handler(srv, stream)
}
