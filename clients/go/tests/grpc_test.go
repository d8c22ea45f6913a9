// SPDX-License-Identifier: Apache-2.0

// The interceptors with grpc-go, in front of its own service of health checks: a unary call, and one that streams.

package tests

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	ration "github.com/ration/ration/clients/go"
	"github.com/ration/ration/clients/go/internal/rationdtest"
	"github.com/ration/ration/clients/go/rationgrpc"
)

const (
	checkPath = "/grpc.health.v1.Health/Check"
	watchPath = "/grpc.health.v1.Health/Watch"
)

// health answers what its functions do.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	check func(ctx context.Context, service string) error
	watch func(stream grpc_health_v1.Health_WatchServer) error
}

func (h health) Check(ctx context.Context, request *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if h.check != nil {
		if err := h.check(ctx, request.Service); err != nil {
			return nil, err
		}
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func (h health) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	return h.watch(stream)
}

func grpcSite(t *testing.T, limit rationgrpc.Limit, service health, options ...grpc.DialOption) grpc_health_v1.HealthClient {
	t.Helper()
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(answerPanic, limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	grpc_health_v1.RegisterHealthServer(server, service)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn := must(grpc.NewClient(listener.Addr().String(), append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...))
	t.Cleanup(func() { _ = conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

// answerPanic is what servers have outside of everything: without it a panic ends the process.
func answerPanic(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if recover() != nil {
			err = status.Error(codes.Internal, "panic")
		}
	}()
	return handler(ctx, request)
}

func limitedBy(t *testing.T, rules string) rationgrpc.Limit {
	t.Helper()
	return rationgrpc.Limit{Limiter: newClient(t, ration.Options{URL: startDaemon(t, t.TempDir(), rules, "").URL()})}
}

func ask(client grpc_health_v1.HealthClient, service string) (headers metadata.MD, err error) {
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	_, err = client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service}, grpc.Header(&headers))
	return headers, err
}

func one(headers metadata.MD, name string) string { return strings.Join(headers.Get(name), "|") }

func TestAUnaryCallIsLimited(t *testing.T) {
	t.Parallel()
	limit := limitedBy(t, "limits:\n  - {name: api, key: user, limit: 1 per hour, when: {path: "+checkPath+", method: POST, ip: 127.0.0.1, host: {present: true}}}\n")
	limit.Attributes = func(_ context.Context, path string) ration.Attributes {
		return ration.Attributes{"user": strings.TrimPrefix(path, "/")}
	}
	var seen atomic.Int64
	client := grpcSite(t, limit, health{check: func(ctx context.Context, _ string) error {
		seen.Store(ration.FromContext(ctx).Limit)
		return nil
	}})
	headers, err := ask(client, "")
	if err != nil || one(headers, "X-RateLimit-Limit") != "1" || one(headers, "ratelimit-policy") != `"api";q=1;w=3600` || seen.Load() != 1 {
		t.Error(headers, err)
	}
	headers, err = ask(client, "")
	refused := status.Convert(err)
	if refused.Code() != codes.ResourceExhausted || !strings.Contains(refused.Message(), "Try again in") || one(headers, "retry-after") == "" {
		t.Error(headers, err)
	}
	info, is := refused.Details()[0].(*errdetails.RetryInfo)
	if !is || info.RetryDelay.AsDuration() < 3500*time.Second || info.RetryDelay.AsDuration() > time.Hour {
		t.Error(refused.Details())
	}
}

func TestAStreamHoldsItsPlaceUntilItHasEnded(t *testing.T) {
	t.Parallel()
	limit := limitedBy(t, "limits:\n  - {name: places, key: ip, limit: 1 concurrent, when: {path: "+watchPath+"}}\n")
	goOn := make(chan bool)
	client := grpcSite(t, limit, health{watch: func(stream grpc_health_v1.Health_WatchServer) error {
		if ration.FromContext(stream.Context()).Lease == "" {
			t.Error("no lease")
		}
		_ = stream.Send(&grpc_health_v1.HealthCheckResponse{})
		<-goOn
		return nil
	}})
	open := func() (grpc_health_v1.Health_WatchClient, error) {
		stream := must(client.Watch(background, &grpc_health_v1.HealthCheckRequest{}))
		_, err := stream.Recv()
		return stream, err
	}
	first, err := open()
	if err != nil || one(must(first.Header()), "x-ratelimit-limit") != "1" {
		t.Fatal(err)
	}
	if second, err := open(); status.Code(err) != codes.ResourceExhausted || one(must(second.Header()), "ratelimit") == "" {
		t.Error(err)
	}
	close(goOn)
	wait(t, "the place", func() bool { _, err := open(); return err == nil })
}

func TestACallIsReportedByItsCode(t *testing.T) {
	t.Parallel()
	limit := limitedBy(t, "limits:\n  - {name: login, key: ip, limit: 1 per hour, charge_on: \"status 401, 500\"}\n")
	client := grpcSite(t, limit, health{check: func(_ context.Context, service string) error {
		switch service {
		case "stranger":
			return status.Error(codes.Unauthenticated, "no")
		case "panic":
			panic("as it may")
		}
		return nil
	}})
	for i := 0; i < 3; i++ {
		if _, err := ask(client, "ann"); err != nil {
			t.Error(err)
		}
	}
	if _, err := ask(client, "stranger"); status.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
	wait(t, "the charge", func() bool { _, err := ask(client, "ann"); return status.Code(err) == codes.ResourceExhausted })
}

func TestAPanicIsReportedAsAFailure(t *testing.T) {
	t.Parallel()
	limit := limitedBy(t, "limits:\n  - {name: errors, key: ip, limit: 1 per hour, charge_on: status 500}\n")
	client := grpcSite(t, limit, health{check: func(_ context.Context, service string) error {
		if service == "panic" {
			panic("as it may")
		}
		return nil
	}})
	if _, err := ask(client, "panic"); status.Code(err) != codes.Internal {
		t.Error(err)
	}
	wait(t, "the charge", func() bool { _, err := ask(client, ""); return status.Code(err) == codes.ResourceExhausted })
}

func TestThePolicyRefusesCallsAsUnavailable(t *testing.T) {
	t.Parallel()
	address := "ration://" + rationdtest.FreeAddress()
	limit := rationgrpc.Limit{Limiter: newClient(t, ration.Options{URL: address, Policy: "refuse"})}
	limit.Skip = func(_ context.Context, path string) bool { return path == watchPath }
	client := grpcSite(t, limit, health{watch: func(stream grpc_health_v1.Health_WatchServer) error {
		return stream.Send(&grpc_health_v1.HealthCheckResponse{})
	}})
	if headers, err := ask(client, ""); status.Code(err) != codes.Unavailable || one(headers, "retry-after") != "1" {
		t.Error(headers, err)
	}
	if _, err := must(client.Watch(background, &grpc_health_v1.HealthCheckRequest{})).Recv(); err != nil {
		t.Error("it is not skipped:", err)
	}
	allowed := grpcSite(t, rationgrpc.Limit{Limiter: newClient(t, ration.Options{URL: address})}, health{})
	if headers, err := ask(allowed, ""); err != nil || one(headers, "x-ratelimit-limit") != "" {
		t.Error(headers, err)
	}
}

// streamOf is a stream that has only a context.
type streamOf struct {
	grpc.ServerStream
	ctx context.Context
}

func (s streamOf) Context() context.Context { return s.ctx }

// Else a deadline that is too short for a decision would get a client round every limit.
func TestACallThatEndsBeforeTheDecisionIsNotServed(t *testing.T) {
	t.Parallel()
	limit := rationgrpc.Limit{Limiter: newClient(t, ration.Options{URL: "ration://" + rationdtest.FreeAddress()})}
	ctx, cancel := context.WithDeadline(background, time.Now())
	defer cancel()
	_, err := limit.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: checkPath}, func(context.Context, any) (any, error) {
		t.Error("it has been called")
		return nil, nil
	})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
	err = limit.Stream(nil, streamOf{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: watchPath}, func(any, grpc.ServerStream) error {
		t.Error("it has been called")
		return nil
	})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
}

func TestACallMayWaitInLine(t *testing.T) {
	t.Parallel()
	limit := limitedBy(t, "limits:\n  - {name: slow, key: ip, limit: 2 per second burst 1}\n")
	limit.Wait = 30 * time.Second
	client := grpcSite(t, limit, health{})
	for i := 0; i < 3; i++ {
		if _, err := ask(client, ""); err != nil {
			t.Error(err)
		}
	}
}

func TestClientsComeAgainWhenTheServerSays(t *testing.T) {
	t.Parallel()
	limit := limitedBy(t, "limits:\n  - {name: api, key: ip, limit: 1 per second}\n")
	var calls atomic.Int64
	service := health{check: func(context.Context, string) error { calls.Add(1); return nil }}
	patient := grpcSite(t, limit, service, grpc.WithUnaryInterceptor(rationgrpc.Backoff(10)))
	for i := 0; i < 3; i++ {
		if _, err := ask(patient, ""); err != nil {
			t.Error(err)
		}
	}
	if calls.Load() != 3 {
		t.Error(calls.Load())
	}
	broken := grpcSite(t, rationgrpc.Limit{Limiter: limit.Limiter, Skip: func(context.Context, string) bool { return true }}, health{check: func(context.Context, string) error {
		calls.Add(1)
		return status.Error(codes.Unavailable, "half done") // without RetryInfo nothing says that it may be repeated
	}}, grpc.WithUnaryInterceptor(rationgrpc.Backoff(10)))
	if _, err := ask(broken, ""); status.Code(err) != codes.Unavailable || calls.Load() != 4 {
		t.Error(err, calls.Load())
	}
}
