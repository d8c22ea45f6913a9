// SPDX-License-Identifier: Apache-2.0

// What the table of scenarios cannot say of middleware for net/http: streams, hijacking, what a writer can do, failures.

package tests

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	ration "github.com/ration/ration/clients/go"
	"github.com/ration/ration/clients/go/internal/rationdtest"
	"github.com/ration/ration/clients/go/rationhttp"
)

const siteRules = `
limits:
  - {name: places, key: ip, limit: 1 concurrent, when: {path: /stream}}
  - {name: api, key: ip, limit: 1 per hour, when: {path: /api}}
  - {name: reported, key: ip, limit: 100 per hour, charge_on: status 500, when: {path: /reported}}
  - {name: fail, key: ip, limit: 1 per hour, charge_on: status 500, when: {path: /fail}}
  - {name: upgrade, key: ip, limit: 1 per hour, charge_on: status 101, when: {path: /upgrade}}
`

func site(t *testing.T, http2 bool, handler http.HandlerFunc) (*httptest.Server, *ration.Client) {
	t.Helper()
	client := newClient(t, ration.Options{URL: startDaemon(t, t.TempDir(), siteRules, "").URL()})
	server := httptest.NewUnstartedServer(answerPanics(rationhttp.Limit{Limiter: client}.Middleware(handler)))
	if server.EnableHTTP2 = http2; http2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server, client
}

func get(t *testing.T, method, url string) *http.Response {
	t.Helper()
	answer := must(browser.Do(must(http.NewRequest(method, url, nil))))
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func TestPlacesAreFreeWhenAStreamHasBeenSent(t *testing.T) {
	t.Parallel()
	goOn := make(chan bool)
	server, client := site(t, false, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a")
		w.(http.Flusher).Flush()
		<-goOn
		_, _ = io.WriteString(w, "b")
	})
	isFree := func() bool {
		d := must(client.AcquireByRules(background, ration.Attributes{"ip": "127.0.0.1", "path": "/stream"}))
		return d.Allowed && must(client.Release(background, d.Lease)) == ration.Settled
	}
	answer := get(t, "GET", server.URL+"/stream")
	if answer.StatusCode != 200 || answer.Header.Get("X-RateLimit-Limit") != "1" || isFree() {
		t.Error(answer)
	}
	close(goOn)
	if body := must(io.ReadAll(answer.Body)); string(body) != "ab" {
		t.Errorf("%q", body)
	}
	wait(t, "the place", isFree)
}

// A handler finds the same interfaces as without us, whether we need the status or not.
func TestAWriterCanDoWhatTheServersCan(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		found := make(chan [5]bool, 3)
		look := func(w http.ResponseWriter) {
			_, flushes := w.(http.Flusher)
			_, hijacks := w.(http.Hijacker)
			_, reads := w.(io.ReaderFrom)
			_, pushes := w.(http.Pusher)
			found <- [5]bool{flushes, hijacks, reads, pushes}
		}
		server, _ := site(t, http2, func(w http.ResponseWriter, _ *http.Request) { look(w) })
		plain := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { look(w) }))
		plain.EnableHTTP2 = http2
		if http2 {
			plain.StartTLS()
		} else {
			plain.Start()
		}
		defer plain.Close()
		get(t, "GET", plain.URL)
		get(t, "GET", server.URL+"/other")
		get(t, "GET", server.URL+"/reported")
		if a, b, c := <-found, <-found, <-found; a != b || a != c || !a[0] {
			t.Error(http2, a, b, c)
		}
	}
}

// Also if other middleware has left out something that we do not need.
func TestAHandlerHijacksBehindOtherMiddleware(t *testing.T) {
	t.Parallel()
	hijacks := false
	limited, _ := site(t, false, func(w http.ResponseWriter, _ *http.Request) { _, hijacks = w.(http.Hijacker) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limited.Config.Handler.ServeHTTP(struct {
			http.ResponseWriter
			http.Flusher
			http.Hijacker
		}{w, w.(http.Flusher), w.(http.Hijacker)}, r)
	}))
	defer server.Close()
	if get(t, "GET", server.URL+"/reported"); !hijacks {
		t.Error("the handler cannot hijack")
	}
}

func TestAHijackedConnectionIsTheHandlers(t *testing.T) {
	t.Parallel()
	server, client := site(t, false, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello")
	})
	conn := must(net.Dial("tcp", server.Listener.Addr().String()))
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /upgrade HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	if line := must(in.ReadString('\n')); !strings.HasPrefix(line, "HTTP/1.1 101") {
		t.Error(line)
	}
	if rest := string(must(io.ReadAll(in))); !strings.HasSuffix(rest, "hello") {
		t.Error(rest)
	}
	wait(t, "the report of 101", func() bool {
		return !must(client.Check(background, ration.Attributes{"ip": "127.0.0.1", "path": "/upgrade"})).Allowed
	})
}

func TestHeadIsRefusedWithoutABody(t *testing.T) {
	t.Parallel()
	server, _ := site(t, false, func(http.ResponseWriter, *http.Request) {})
	get(t, "HEAD", server.URL+"/api")
	answer := get(t, "HEAD", server.URL+"/api")
	if body := must(io.ReadAll(answer.Body)); answer.StatusCode != 429 || len(body) > 0 || answer.ContentLength <= 0 || answer.Header.Get("Retry-After") == "" {
		t.Error(answer)
	}
}

func TestAHandlerThatFailsHalfwayIsWhatTheClientSaw(t *testing.T) {
	t.Parallel()
	server, _ := site(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Fail") == "" {
			w.WriteHeader(http.StatusOK)
		}
		panic("as it may")
	})
	get(t, "GET", server.URL+"/fail") // 200, as far as anybody knows
	if answer := get(t, "GET", server.URL+"/fail"); answer.StatusCode != 200 {
		t.Error(answer)
	}
	request := must(http.NewRequest("GET", server.URL+"/fail", nil))
	request.Header.Set("X-Fail", "1")
	_ = must(browser.Do(request)).Body.Close()
	wait(t, "the report of 500", func() bool { return get(t, "GET", server.URL+"/fail").StatusCode == 429 })
}

// delaying admits each request after a delay, and remembers what it was called with.
type delaying struct {
	delay time.Duration
	told  chan string
}

func (l delaying) Check(context.Context, ration.Attributes, ...ration.Option) (*ration.Decision, error) {
	return &ration.Decision{Allowed: true, Delay: l.delay, Lease: "lease", Charge: "charge", Limit: -1}, nil
}

func (l delaying) Report(_ context.Context, charge string, _ int) (ration.Outcome, error) {
	l.told <- "report " + charge
	return ration.Settled, nil
}

func (l delaying) Release(_ context.Context, lease string) (ration.Outcome, error) {
	l.told <- "release " + lease
	return ration.Settled, nil
}

func TestAClientThatGoesDuringADelayHasNotBeenServed(t *testing.T) {
	t.Parallel()
	limiter := delaying{time.Hour, make(chan string, 9)}
	handler := rationhttp.Limit{Limiter: limiter}.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it has been called") }))
	ctx, cancel := context.WithCancel(background)
	cancel()
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	if told := <-limiter.told; told != "release lease" || len(limiter.told) > 0 {
		t.Error(told)
	}
}

// Else nobody who hangs up at once would be limited: the policy decides what its caller does not wait for.
func TestAClientThatGoesBeforeTheDecisionIsNotServed(t *testing.T) {
	t.Parallel()
	limiter := newClient(t, ration.Options{URL: "ration://" + rationdtest.FreeAddress()})
	handler := rationhttp.Limit{Limiter: limiter}.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it has been called") }))
	ctx, cancel := context.WithCancel(background)
	cancel()
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
}

func TestADelayIsSleptAndTheDecisionIsInTheContext(t *testing.T) {
	t.Parallel()
	limiter := delaying{30 * time.Millisecond, make(chan string, 9)}
	began, called := time.Now(), false
	handler := rationhttp.Limit{Limiter: limiter}.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called = time.Since(began) >= limiter.delay && ration.FromContext(r.Context()).Charge == "charge"
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if first, second := <-limiter.told, <-limiter.told; !called || first != "report charge" || second != "release lease" {
		t.Error(called, first, second)
	}
}
