// SPDX-License-Identifier: Apache-2.0

// The table of scenarios with the client, and its requests with the middleware, over HTTP/1.1 and over HTTP/2.

package tests

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	ration "github.com/ration/ration/clients/go"
	"github.com/ration/ration/clients/go/rationhttp"
)

// browser trusts every server of these tests, and makes a connection for each request of HTTP/1.1.
var browser = &http.Client{Timeout: time.Minute, Transport: &http.Transport{
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableKeepAlives: true}}

// application is that of the scenarios.
func application(w http.ResponseWriter, r *http.Request) {
	var status int
	switch {
	case r.URL.Path == "/raise":
		panic(errors.New("as the scenario wants it"))
	case strings.HasPrefix(r.URL.Path, "/status/"):
		fmt.Sscanf(r.URL.Path, "/status/%d", &status)
		w.WriteHeader(status)
	}
	_, _ = io.WriteString(w, "ok")
}

// answerPanics is what sites have outside of everything: without it net/http closes the connection without a response.
func answerPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func serve(t *testing.T, client *ration.Client, app map[string]any, http2 bool) string {
	limit := rationhttp.Limit{Limiter: client, Attributes: func(r *http.Request) ration.Attributes {
		if user := r.Header.Get("X-User"); user != "" {
			return ration.Attributes{"user": user}
		}
		return nil
	}}
	if skip, is := app["skip"]; is {
		limit.Skip = func(r *http.Request) bool { return r.URL.Path == skip }
	}
	if wait, is := app["wait"]; is {
		limit.Wait = seconds(wait)
	}
	server := httptest.NewUnstartedServer(answerPanics(limit.Middleware(http.HandlerFunc(application))))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if server.EnableHTTP2 = http2; http2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server.URL
}

var sites = map[string]func(*testing.T, *ration.Client, map[string]any) string{
	"http1": func(t *testing.T, c *ration.Client, app map[string]any) string { return serve(t, c, app, false) },
	"http2": func(t *testing.T, c *ration.Client, app map[string]any) string { return serve(t, c, app, true) },
}

func TestNamesOfScenariosAreUnique(t *testing.T) {
	names := map[string]bool{}
	table := readTable(t)
	for _, s := range table.Scenarios {
		if names[s.Name] || s.Name == "" {
			t.Errorf("%q is there twice", s.Name)
		}
		names[s.Name] = true
	}
	if len(names) < 40 {
		t.Errorf("only %d scenarios", len(names))
	}
}

func TestScenarios(t *testing.T) {
	table := readTable(t)
	for _, each := range table.Scenarios {
		s := each
		if !s.asksOverHTTP() {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				runScenario(t, table, s, nil)
			})
			continue
		}
		for name, site := range sites {
			site := site
			t.Run(s.Name+", "+name, func(t *testing.T) {
				t.Parallel()
				runScenario(t, table, s, site)
			})
		}
	}
}
