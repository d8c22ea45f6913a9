// SPDX-License-Identifier: Apache-2.0

// Calls that are refused, and made again when the server says.

package rationgrpc

import (
	"context"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	ration "github.com/ration/ration/clients/go"
)

// Backoff is an interceptor for clients. It makes up to so many attempts of a call whose error has RetryInfo: such a call has
// been refused before it did anything. It waits as long as the server asks, and a random part besides; not if the deadline
// of the context would pass meanwhile.
func Backoff(attempts int) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		for attempt := 0; ; attempt++ {
			err := invoke(ctx, method, request, answer, conn, options...)
			asked, refused := retryDelay(err)
			wait := asked + ration.Backoff(attempt, "")
			if !refused || attempt+1 >= attempts || wait < 0 { // a sum that does not fit is no time to wait for
				return err
			}
			if ends, is := ctx.Deadline(); is && time.Until(ends) < wait {
				return err
			}
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return err
			}
		}
	}
}

func retryDelay(err error) (time.Duration, bool) {
	for _, detail := range status.Convert(err).Details() {
		if info, is := detail.(*errdetails.RetryInfo); is {
			delay := info.GetRetryDelay().AsDuration()
			return delay, delay >= 0
		}
	}
	return 0, false
}
