// SPDX-License-Identifier: Apache-2.0

// Package rationhttp is middleware for net/http, and for every router that takes such.
//
//	limit := rationhttp.Limit{Limiter: limiter}
//	http.ListenAndServe(":8080", limit.Middleware(mux))
//
// The handler finds the decision by ration.FromContext(r.Context()).
package rationhttp

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	ration "github.com/ration/ration/clients/go"
)

// Limit says which requests are limited, and by what.
type Limit struct {
	Limiter ration.Limiter

	// Attributes adds to ip, method, host and path: user, header.NAME, tier. A nil takes one away. May be nil.
	Attributes func(*http.Request) ration.Attributes
	// Skip is true for requests that are not limited. May be nil.
	Skip func(*http.Request) bool
	// Wait is how long a request may stand in line.
	Wait time.Duration
}

// Middleware limits what next answers. It panics without a Limiter.
func (l Limit) Middleware(next http.Handler) http.Handler {
	if l.Limiter == nil {
		panic("rationhttp: Limit needs a Limiter, such as that of ration.New")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.Skip != nil && l.Skip(r) {
			next.ServeHTTP(w, r)
			return
		}
		d, err := l.Limiter.Check(r.Context(), l.attributes(r), ration.Lease(), ration.Wait(l.Wait))
		if err != nil {
			log.Print(err) // a mistake in Attributes; the policy has decided
		}
		if d.By == "policy" && r.Context().Err() != nil {
			return // the client has gone, and nobody has counted its request
		}
		for _, header := range d.Headers() {
			w.Header().Set(header.Name, header.Value)
		}
		if !d.Allowed {
			refuse(w, r, d)
			return
		}
		seen := &recorder{ResponseWriter: w}
		defer l.end(d, seen)
		if pause(r.Context(), d.Delay) {
			seen.status = http.StatusInternalServerError // until a response says otherwise
			if d.Charge != "" {
				w = seen.like(w)
			}
			next.ServeHTTP(w, r.WithContext(ration.NewContext(r.Context(), d)))
			seen.returned()
		}
	})
}

func (l Limit) attributes(r *http.Request) ration.Attributes {
	path := r.RequestURI
	if path == "" { // a request that no server has read
		path = r.URL.RequestURI()
	}
	found := ration.Attributes{"method": r.Method, "path": path}
	if ip, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		found["ip"] = ip
	}
	if r.Host != "" {
		found["host"] = r.Host
	}
	if l.Attributes != nil {
		for name, value := range l.Attributes(r) {
			found[name] = value
		}
	}
	return found
}

func refuse(w http.ResponseWriter, r *http.Request, d *ration.Decision) {
	contentType, body := d.Body(strings.Join(r.Header.Values("Accept"), ","))
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(d.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that has gone is none of ours
	}
}

// pause sleeps; false if the client has gone meanwhile.
func pause(ctx context.Context, delay time.Duration) bool {
	if delay <= 0 {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// end tells rationd the status, and that the places are free, also if the handler has panicked. The context of the
// request may have ended.
func (l Limit) end(d *ration.Decision, seen *recorder) {
	if d.Charge != "" && seen.status != 0 {
		_, _ = l.Limiter.Report(context.Background(), d.Charge, seen.status)
	}
	if d.Lease != "" {
		_, _ = l.Limiter.Release(context.Background(), d.Lease)
	}
}

// recorder learns the status of a response.
type recorder struct {
	http.ResponseWriter
	status int // 0: the handler has not been called
	sent   bool
}

func (r *recorder) WriteHeader(status int) {
	if !r.sent && (status >= 200 || status == http.StatusSwitchingProtocols) {
		r.status, r.sent = status, true
	}
	r.ResponseWriter.WriteHeader(status)
}

// returned is for a handler that leaves the status to the server.
func (r *recorder) returned() {
	if !r.sent {
		r.status = http.StatusOK
	}
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// What writers of net/http can do besides, for HTTP/1 and HTTP/2.
type (
	writer1 struct {
		*recorder
		http.Flusher
		http.Hijacker
		io.ReaderFrom
	}
	hijacker struct { // of middleware before us that has no ReaderFrom
		*recorder
		http.Flusher
		http.Hijacker
	}
	writer2 struct {
		*recorder
		http.Flusher
		http.Pusher
	}
	flusher struct {
		*recorder
		http.Flusher
	}
)

func (w writer1) Hijack() (net.Conn, *bufio.ReadWriter, error)  { return w.hijack(w.Hijacker) }
func (w hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.hijack(w.Hijacker) }

// hijack: from then on the connection is the handler's.
func (r *recorder) hijack(from http.Hijacker) (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := from.Hijack()
	if err == nil && !r.sent {
		r.status, r.sent = http.StatusSwitchingProtocols, true
	}
	return conn, buffer, err
}

// like is the recorder with what the writer of the server can do besides.
func (r *recorder) like(w http.ResponseWriter) http.ResponseWriter {
	flush, flushes := w.(http.Flusher)
	hijack, hijacks := w.(http.Hijacker)
	from, reads := w.(io.ReaderFrom)
	push, pushes := w.(http.Pusher)
	switch {
	case flushes && hijacks && reads:
		return writer1{r, flush, hijack, from}
	case flushes && hijacks:
		return hijacker{r, flush, hijack}
	case flushes && pushes:
		return writer2{r, flush, push}
	case flushes:
		return flusher{r, flush}
	}
	return r
}
