// SPDX-License-Identifier: Apache-2.0

// Package rationgrpc has interceptors for grpc-go.
//
//	limit := rationgrpc.Limit{Limiter: limiter}
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
//
// Rules see a call as the HTTP/2 request that it is: method POST, path /package.Service/Method, host, ip. A refusal is
// ResourceExhausted, by the policy "refuse" Unavailable, with the headers as metadata, and RetryInfo. The handler finds the
// decision by ration.FromContext(ctx).
package rationgrpc

import (
	"context"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	ration "github.com/ration/ration/clients/go"
)

// Limit says which calls are limited, and by what.
type Limit struct {
	Limiter ration.Limiter

	// Attributes adds to ip, method, host and path: user, header.NAME, tier. A nil takes one away. May be nil.
	Attributes func(ctx context.Context, path string) ration.Attributes
	// Skip is true for calls that are not limited. May be nil.
	Skip func(ctx context.Context, path string) bool
	// Wait is how long a call may stand in line.
	Wait time.Duration
}

// Unary is a grpc.UnaryServerInterceptor.
func (l Limit) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	if l.Skip != nil && l.Skip(ctx, info.FullMethod) {
		return handler(ctx, request)
	}
	d, err := l.admit(ctx, info.FullMethod, func(md metadata.MD) error { return grpc.SetHeader(ctx, md) })
	if err != nil {
		return nil, err
	}
	ended := http.StatusInternalServerError // if the handler panics
	defer func() { l.end(d, ended) }()
	answer, err = handler(ration.NewContext(ctx, d), request)
	ended = statusOf(err)
	return answer, err
}

// Stream is a grpc.StreamServerInterceptor. The places of a stream are free when its handler has returned.
func (l Limit) Stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := stream.Context()
	if l.Skip != nil && l.Skip(ctx, info.FullMethod) {
		return handler(server, stream)
	}
	d, err := l.admit(ctx, info.FullMethod, stream.SetHeader)
	if err != nil {
		return err
	}
	ended := http.StatusInternalServerError // if the handler panics
	defer func() { l.end(d, ended) }()
	err = handler(server, decided{stream, ration.NewContext(ctx, d)})
	ended = statusOf(err)
	return err
}

// decided is a stream whose context has the decision.
type decided struct {
	grpc.ServerStream
	ctx context.Context
}

func (s decided) Context() context.Context { return s.ctx }

// admit returns the refusal as an error.
func (l Limit) admit(ctx context.Context, path string, setHeader func(metadata.MD) error) (*ration.Decision, error) {
	if l.Limiter == nil {
		panic("rationgrpc: Limit needs a Limiter, such as that of ration.New")
	}
	d, err := l.Limiter.Check(ctx, l.attributes(ctx, path), ration.Lease(), ration.Wait(l.Wait))
	if err != nil {
		log.Print(err) // a mistake in Attributes; the policy has decided
	}
	if ctx.Err() != nil && d.By == "policy" { // the client has gone, and nobody has counted its call
		return d, status.FromContextError(ctx.Err()).Err()
	}
	headers := metadata.MD{}
	for _, each := range d.Headers() {
		headers.Append(each.Name, each.Value)
	}
	if err := setHeader(headers); err != nil {
		log.Printf("ration: no headers: %v", err)
	}
	if !d.Allowed {
		return d, refusal(d)
	}
	if d.Delay <= 0 {
		return d, nil
	}
	timer := time.NewTimer(d.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return d, nil
	case <-ctx.Done(): // the client has gone; nothing has happened that could be reported
		if d.Lease != "" {
			_, _ = l.Limiter.Release(context.Background(), d.Lease)
		}
		return d, status.FromContextError(ctx.Err()).Err()
	}
}

func (l Limit) attributes(ctx context.Context, path string) ration.Attributes {
	found := ration.Attributes{"method": http.MethodPost, "path": path}
	if from, ok := peer.FromContext(ctx); ok {
		if ip, _, err := net.SplitHostPort(from.Addr.String()); err == nil {
			found["ip"] = ip
		}
	}
	if host := metadata.ValueFromIncomingContext(ctx, ":authority"); len(host) > 0 {
		found["host"] = host[0]
	}
	if l.Attributes != nil {
		for name, value := range l.Attributes(ctx, path) {
			found[name] = value
		}
	}
	return found
}

func refusal(d *ration.Decision) error {
	code := codes.ResourceExhausted
	if d.Error == "unavailable" {
		code = codes.Unavailable
	}
	plain := status.New(code, strings.TrimSpace(d.Message()))
	if d.RetryAfter == ration.Never {
		return plain.Err()
	}
	detailed, err := plain.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)})
	if err != nil {
		return plain.Err()
	}
	return detailed.Err()
}

// end tells rationd how the call has ended, and that its places are free. The context of the call may have ended.
func (l Limit) end(d *ration.Decision, ended int) {
	if d.Charge != "" {
		_, _ = l.Limiter.Report(context.Background(), d.Charge, ended)
	}
	if d.Lease != "" {
		_, _ = l.Limiter.Release(context.Background(), d.Lease)
	}
}

// httpStatus is what rules with charge_on know the codes of gRPC by.
var httpStatus = map[codes.Code]int{
	codes.OK: 200, codes.Canceled: 499, codes.InvalidArgument: 400, codes.DeadlineExceeded: 504, codes.NotFound: 404,
	codes.AlreadyExists: 409, codes.PermissionDenied: 403, codes.ResourceExhausted: 429, codes.FailedPrecondition: 400,
	codes.Aborted: 409, codes.OutOfRange: 400, codes.Unimplemented: 501, codes.Unavailable: 503, codes.Unauthenticated: 401,
}

func statusOf(err error) int {
	if known, is := httpStatus[status.Code(err)]; is {
		return known
	}
	return http.StatusInternalServerError
}
