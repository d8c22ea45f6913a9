// SPDX-License-Identifier: Apache-2.0

// Decisions out of replies, and what they tell clients.

package ration

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

const sixReply = "%8\r\n$7\r\nallowed\r\n#t\r\n$4\r\nrule\r\n$3\r\napi\r\n$5\r\nlimit\r\n:9\r\n$9\r\nremaining\r\n:6\r\n$11\r\nreset_after\r\n" +
	",3.5\r\n$11\r\nretry_after\r\n:0\r\n$5\r\ndelay\r\n:0\r\n$6\r\nlimits\r\n*1\r\n%7\r\n$4\r\nrule\r\n$3\r\napi\r\n$5\r\nlimit\r\n:9\r\n$9\r\nremaining\r\n:6\r\n" +
	"$11\r\nreset_after\r\n,3.5\r\n$7\r\nallowed\r\n#t\r\n$6\r\namount\r\n:9\r\n$6\r\nperiod\r\n:60\r\n"

func readOne(t *testing.T, text string) (*Decision, error) {
	t.Helper()
	var in reader
	found, err := in.feed([]byte(text))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	return readDecision(found[0])
}

func headersOf(d *Decision) string {
	var out []string
	for _, each := range d.Headers() {
		out = append(out, each.Name+": "+each.Value)
	}
	return strings.Join(out, "\n")
}

func TestADecisionIsRead(t *testing.T) {
	d, err := readOne(t, sixReply)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Allowed || d.Rule != "api" || d.Limit != 9 || d.Remaining != 6 || d.ResetAfter != 3500*time.Millisecond || d.Status != 200 || d.By != "rationd" {
		t.Errorf("%+v", d)
	}
	d.At = time.Unix(1_800_000_000, 1)
	want := "X-RateLimit-Limit: 9\nX-RateLimit-Remaining: 6\nX-RateLimit-Reset: 1800000004\nRateLimit-Policy: \"api\";q=9;w=60\nRateLimit: \"api\";r=6;t=4"
	if found := headersOf(d); found != want {
		t.Error(found)
	}
}

func TestWhatIsNoDecisionIsABadAnswer(t *testing.T) {
	for _, change := range [][2]string{{"#t", ":1"}, {"$3\r\napi", ":3"}, {":9", "$1\r\n9"}, {"limits\r\n*1", "limitz\r\n*1"}, {"*1\r\n%7", "*1\r\n*14"},
		{"period\r\n:60", "period\r\n#t"}, {"%8\r\n", "%9\r\n$6\r\nstatus\r\n:7\r\n"}, {"%8\r\n", "%9\r\n$5\r\nlease\r\n:7\r\n"}, {"%8\r\n", "%9\r\n$4\r\nsoft\r\n_\r\n"}} {
		if d, err := readOne(t, strings.Replace(sixReply, change[0], change[1], 1)); !isBad(err) {
			t.Errorf("%q for %q: %+v, %v", change[1], change[0], d, err)
		}
	}
	if _, err := readOne(t, strings.Replace(sixReply, "%8\r\n", "%9\r\n$3\r\nnew\r\n*1\r\n:7\r\n", 1)); err != nil {
		t.Error("an unknown member:", err)
	}
}

func TestNamesInHeadersAreUniqueAndQuoted(t *testing.T) {
	d := &Decision{Allowed: true, Family: "ietf"}
	for _, rule := range []string{"api", "api", "api-2", `a"\b`, "ü", ""} {
		d.Limits = append(d.Limits, Limit{Rule: rule, Limit: 5, Remaining: 4, ResetAfter: Never})
	}
	if want := `RateLimit: "api";r=4, "api-3";r=4, "api-2";r=4, "a\"\\b";r=4, "?";r=4, "default";r=4`; headersOf(d) != want {
		t.Error(headersOf(d))
	}
}

func TestNumbersInHeadersAreRoundedUpAndBounded(t *testing.T) {
	d := &Decision{Limit: 1 << 60, Remaining: 7, Family: "both", RetryAfter: 1, ResetAfter: 1, At: time.Unix(99, 0), Limits: []Limit{
		{Limit: 1 << 60, Remaining: 1 << 60, ResetAfter: 1, Told: true, Amount: 1, Period: time.Second},
		{Limit: 50, Told: true, Amount: 100, Period: time.Minute}, {Limit: 20, Told: true, Amount: 20}, {Limit: -1, Told: true}, {Limit: 5, Shadow: true}}}
	want := `X-RateLimit-Limit: 1152921504606846976
X-RateLimit-Remaining: 7
X-RateLimit-Reset: 100
X-RateLimit-Retry-After: 1
RateLimit-Policy: "default";q=999999999999999;w=999999999999999, "default-2";q=50;w=30, "default-3";q=20;qu="concurrent-requests"
RateLimit: "default";r=999999999999999;t=1, "default-2";r=0;t=0, "default-3";r=0;t=0
Retry-After: 1`
	if headersOf(d) != want {
		t.Error(headersOf(d))
	}
}

func TestTheBodyOfARefusal(t *testing.T) {
	d := &Decision{Rule: "login", Limit: -1, Remaining: -1, ResetAfter: 0, RetryAfter: 221400 * time.Millisecond, Banned: true, Level: 2,
		Status: 403, Error: "banned", DecidedBy: -1, Family: "both"}
	kind, body := d.Body("text/html")
	want := `{"allowed":false,"rule":"login","limit":null,"remaining":null,"reset_after":0,"retry_after":221.4,"delay":0,"limits":[],` +
		`"banned":true,"level":2,"error":"banned","window":null,"reset":null,"message":"Banned for a while. Try again in 222 seconds."}`
	if kind != "application/json" || string(body) != want {
		t.Error(kind, string(body))
	}
	kind, body = d.Body("text/html, application/problem+json;q=0.9")
	var members map[string]any
	if err := json.Unmarshal(body, &members); err != nil || kind != "application/problem+json" {
		t.Fatal(kind, err)
	}
	if members["title"] != "Abnormal Usage Detected" || members["status"] != 403.0 || members["message"] != nil || !strings.HasPrefix(string(body), `{"type":"https://iana.org/`) {
		t.Error(string(body))
	}
}

func TestMessagesAreSentences(t *testing.T) {
	for want, d := range map[string]*Decision{
		"Requests like this one are not allowed.":                  {Error: "denied", RetryAfter: Never},
		"This request asks for more than its limit ever admits.":   {Error: "rate_limited", RetryAfter: Never},
		"Too many requests. Try again in 1 second.":                {Error: "rate_limited", RetryAfter: 1},
		"Requests of this key are paused. Try again in 2 seconds.": {Error: "paused", RetryAfter: 1001 * time.Millisecond},
		"Slowly.": {Text: "Slowly."},
	} {
		if d.Message() != want {
			t.Error(d.Message())
		}
	}
}
