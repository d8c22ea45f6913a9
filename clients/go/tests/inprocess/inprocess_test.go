// SPDX-License-Identifier: Apache-2.0

// Decisions in the process, on the state file that a rationd shares. Needs libration: RATION_BUILD, by pkg-config.

package inprocess

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ration "github.com/ration/ration/clients/go"
	"github.com/ration/ration/clients/go/inprocess"
	"github.com/ration/ration/clients/go/internal/rationdtest"
	"github.com/ration/ration/clients/go/rationhttp"
)

const rules = `
limits:
  - {name: api, key: ip, limit: 5 per hour, when: {path: /api}}
  - {name: places, key: ip, limit: 1 concurrent, when: {path: /places}}
  - {name: login, key: ip, limit: 1 per hour, charge_on: status 401, when: {path: /login}}
  - {name: user, key: user, limit: 1 per hour, when: {user: {present: true}}, response: {status: 420, headers: x, message: Slowly., retry_header: X-RateLimit-RetryAfter}}
  - {name: trial, key: tenant, limit: 1 per hour, mode: shadow, when: {tenant: {present: true}}}
deny: [{ip: 192.0.2.66}]
`

var background = context.Background()

func must[T any](answer T, err error) T {
	if err != nil {
		panic(err)
	}
	return answer
}

// open has a client of rationd, and the library on its state file.
func open(t *testing.T) (*ration.Client, *inprocess.Limiter) {
	t.Helper()
	folder := t.TempDir()
	state := filepath.Join(folder, "state")
	daemon, err := rationdtest.Start(folder, rules, "", "--state", state, "--memory", "4M")
	if err != nil {
		t.Fatal(err)
	}
	client := must(ration.New(ration.Options{URL: daemon.URL(), Deadline: 5 * time.Second}))
	local := must(inprocess.Open(inprocess.Options{State: state, Rules: []string{daemon.Rules()}, Refresh: 10 * time.Millisecond}))
	t.Cleanup(func() {
		_, _ = client.Close(), local.Close()
		if err := daemon.Stop(); err != nil {
			t.Error(err)
		}
	})
	return client, local
}

func headersOf(d *ration.Decision) map[string]string {
	found := map[string]string{}
	for _, each := range d.Headers() {
		found[each.Name] = each.Value
	}
	return found
}

func TestCountersAreThoseOfRationd(t *testing.T) {
	client, local := open(t)
	if v := must(local.Take("ann", "3 per hour", 1)); !v.Allowed || v.Limit != 3 || v.Remaining != 2 || v.RetryAfter != 0 || v.ResetAfter <= 0 {
		t.Errorf("%+v", v)
	}
	if d := must(client.Take(background, "ann", "3 per hour")); d.Remaining != 1 {
		t.Errorf("%+v", d)
	}
	if v := must(local.Take("ann", "3 per hour", 2)); v.Allowed || v.Remaining != 1 || v.RetryAfter < 19*time.Minute || v.RetryAfter > 20*time.Minute {
		t.Errorf("%+v", v)
	}
	if v := must(local.Take("ann", "3 per hour", 4)); v.RetryAfter != ration.Never {
		t.Errorf("%+v", v)
	}
	if v := must(local.Take("", "3 per hour", 1)); v.Remaining != 2 || must(client.Take(background, "", "3 per hour")).Remaining != 1 {
		t.Errorf("an empty key: %+v", v)
	}
	asked := ration.Attributes{"ip": "192.0.2.7", "path": "/api"}
	if a, b := must(local.Check(background, asked)), must(client.Check(background, asked)); a.Remaining != 4 || b.Remaining != 3 {
		t.Errorf("%+v %+v", a, b)
	}
	if d := must(local.Check(background, asked, ration.Cost(0))); d.Remaining != 3 {
		t.Errorf("a cost of 0 looks: %+v", d)
	}
	for i, want := range []bool{true, true, true, false} {
		if must(local.Allows(0, "ip", "192.0.2.7", "path", "/api")) != want || must(local.Allows(1, "ip", "192.0.2.7", "path", "/api")) != want {
			t.Error(i)
		}
	}
}

// Both answer the same, to the last header and member of the body.
func TestDecisionsAreThoseOfRationd(t *testing.T) {
	client, local := open(t)
	for _, asked := range []ration.Attributes{{"ip": "192.0.2.7", "path": "/api"}, {"ip": "192.0.2.66"}, {"ip": "192.0.2.7", "path": "/other"},
		{"ip": "192.0.2.8", "user": "ann"}, {"ip": "192.0.2.9", "tenant": "x"}, {"ip": "192.0.2.9", "user": "bob", "tenant": "x", "path": "/api"}} {
		must(client.Check(background, asked))
		must(local.Check(background, asked))
		for _, cost := range []int64{0, 9} {
			a, b := must(local.Check(background, asked, ration.Cost(cost))), must(client.Check(background, asked, ration.Cost(cost)))
			b.At = a.At
			if found, want := fmt.Sprint(headersOf(a)), fmt.Sprint(headersOf(b)); found != want {
				t.Errorf("%v: %s is not %s", asked, found, want)
			}
			if a.Status != b.Status || a.Error != b.Error || a.Rule != b.Rule || a.Allowed != b.Allowed || a.Shadow != b.Shadow || a.Message() != b.Message() {
				t.Errorf("%v: %+v is not %+v", asked, a, b)
			}
			if a.By != "libration" || b.By != "rationd" {
				t.Error(a.By, b.By)
			}
		}
	}
}

func TestPlacesAndOutcomesAreSettledByEither(t *testing.T) {
	client, local := open(t)
	asked := ration.Attributes{"ip": "192.0.2.7", "path": "/places"}
	place := must(local.Check(background, asked, ration.Lease()))
	if !place.Allowed || must(client.Check(background, asked, ration.Lease())).Allowed {
		t.Errorf("%+v", place)
	}
	if a, b := must(client.Release(background, place.Lease)), must(local.Release(background, place.Lease)); a != ration.Settled || b != ration.Ended {
		t.Error(a, b)
	}
	asked["path"] = "/login"
	login := must(local.Check(background, asked))
	if a, b := must(local.Report(background, login.Charge, 200)), must(client.Report(background, login.Charge, 401)); a != ration.Ended || b != ration.Settled {
		t.Error(a, b)
	}
	if must(local.Check(background, asked)).Allowed || must(local.Release(background, "")) != ration.Unknown || must(local.Report(background, "", 200)) != ration.Unknown {
		t.Error("it is not charged")
	}
}

func TestGoroutinesAreAdmittedNoMoreThanTheLimit(t *testing.T) {
	_, local := open(t)
	var admitted, allowed atomic.Int64
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for j := 0; j < 300; j++ {
				if must(local.Take("crowd", "500 per 7 days", 1)).Allowed {
					admitted.Add(1)
				}
				if must(local.Allows(1, "ip", "192.0.2.9", "path", "/api")) {
					allowed.Add(1)
				}
				if v := must(local.Take(fmt.Sprint(i), fmt.Sprint(j+1, " per 7 days"), 1)); v.Limit != uint64(j+1) { // all read limits at once
					t.Error(v)
				}
			}
		}(i)
	}
	group.Wait()
	if admitted.Load() != 500 || allowed.Load() != 5 {
		t.Error(admitted.Load(), allowed.Load())
	}
}

func TestMoreLimitsThanAreKept(t *testing.T) {
	_, local := open(t)
	for i := 1; i <= 1500; i++ {
		if v := must(local.Take("ann", fmt.Sprint(i, " per hour"), 0)); v.Limit != uint64(i) {
			t.Fatal(i, v)
		}
	}
}

func TestDecisionsAllocateNothing(t *testing.T) {
	_, local := open(t)
	path := strings.Repeat("/x", 20)
	for name, call := range map[string]func(){
		"take":   func() { must(local.Take("ann", "1000 per hour", 1)) },
		"allows": func() { must(local.Allows(1, "ip", "192.0.2.7", "path", path)) },
	} {
		if count := testing.AllocsPerRun(1000, call); count >= 1 {
			t.Error(name, count)
		}
	}
}

func TestThePolicyDecidesWhereTheLibraryCannot(t *testing.T) {
	folder, text := t.TempDir(), "limits:\n"
	for i := 0; i < 70; i++ { // more than can be decided together
		text += fmt.Sprintf("  - {name: r%d, key: ip, limit: 5 per hour}\n", i)
	}
	file := filepath.Join(folder, "rules.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	local := must(inprocess.Open(inprocess.Options{State: filepath.Join(folder, "state"), Rules: []string{file}, Policy: "refuse"}))
	d := must(local.Check(background, ration.Attributes{"ip": "192.0.2.7"}))
	if d.By != "policy" || d.Status != 503 || d.Allowed || !strings.Contains(d.Why, "invalid") {
		t.Errorf("%+v", d)
	}
	if _, err := local.Allows(1, "ip", "192.0.2.7"); err == nil || !strings.Contains(err.Error(), "invalid") {
		t.Error(err)
	}
	_ = local.Close()
	if _, err := local.Take("ann", "2 per hour", 1); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Error(err)
	}
	if d := must(local.Check(background, ration.Attributes{"ip": "192.0.2.7"})); d.By != "policy" {
		t.Errorf("%+v", d)
	}
}

func TestMiddlewareTakesItInThePlaceOfAClient(t *testing.T) {
	_, local := open(t)
	handler := rationhttp.Limit{Limiter: local}.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for i, path := range []string{"/places", "/places", "/places", "/api", "/api", "/api", "/api", "/api", "/api"} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		if want := map[bool]int{true: 429, false: 200}[i == 8]; answer.Code != want {
			t.Error(i, answer.Code)
		}
	}
}

func TestMistakesHaveMessages(t *testing.T) {
	_, local := open(t)
	expect := func(text string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Error(text, err)
		}
	}
	error2 := func(_ any, err error) error { return err }
	expect("fortnight", error2(local.Take("ann", "2 per fortnight", 1)))
	expect("cost", error2(local.Take("ann", "2 per hour", -1)))
	expect("lower case", error2(local.Allows(1, "User", "ann")))
	expect("attributes", error2(local.Allows(1, "user")))
	expect("lower case", error2(local.Check(background, ration.Attributes{"User": "ann"})))
	expect("wait", error2(local.Check(background, ration.Attributes{"user": "ann"}, ration.Wait(time.Second))))
	expect("status", error2(local.Report(background, "x", -1)))
	folder := t.TempDir()
	bad, foreign := filepath.Join(folder, "bad.yaml"), filepath.Join(folder, "foreign")
	for file, text := range map[string]string{bad: "limits: 7\n", foreign: strings.Repeat("nothing of ours\n", 500)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect("bad.yaml:1", local.Load(bad))
	expect("foreign", error2(inprocess.Open(inprocess.Options{State: foreign})))
	expect("100 per second", error2(inprocess.Open(inprocess.Options{Policy: "maybe"})))
	if must(local.Check(background, ration.Attributes{"ip": "192.0.2.7", "path": "/api"})).Rule != "api" {
		t.Error("the former rules are gone")
	}
}
