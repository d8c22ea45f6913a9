// SPDX-License-Identifier: Apache-2.0

// Local limits, the breaker, backoff, arguments.

package ration

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestALocalLimitRefillsAndForgets(t *testing.T) {
	p, err := NewPolicy("10 per second burst 5")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	take := func(key string, cost int64, at time.Duration) *Decision {
		d := &Decision{At: now.Add(at)}
		p.local.take(d, key, cost)
		return d
	}
	for i := 0; i < 5; i++ {
		if d := take("a", 1, 0); !d.Allowed || d.Remaining != int64(4-i) {
			t.Errorf("%+v", d)
		}
	}
	if d := take("a", 1, 0); d.Allowed || d.RetryAfter != 100*time.Millisecond {
		t.Errorf("%+v", d)
	}
	if d := take("a", 6, 0); d.Allowed || d.RetryAfter != Never {
		t.Errorf("%+v", d)
	}
	if !take("a", 1, 100*time.Millisecond).Allowed || take("a", 1, 150*time.Millisecond).Allowed {
		t.Error("it does not refill by one in 100 ms")
	}
	for i := 0; i < 2*mostKeys; i++ {
		take(fmt.Sprint(i), 1, 0)
	}
	if len(p.local.buckets) != mostKeys || p.local.used.Len() != mostKeys || p.local.buckets["a"] != nil {
		t.Error(len(p.local.buckets))
	}
}

func TestALocalLimitMustBeOne(t *testing.T) {
	for _, text := range []string{"many", "0 per second", "5 per 0 seconds", "5 per fortnight", "-1 per second", "5 per second ", "5 per second\n"} {
		if _, err := NewPolicy(text); err == nil || !strings.Contains(err.Error(), "local limit") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTheBreakerLetsOneProbeThroughAtATime(t *testing.T) {
	var told []string
	e := &events{call: func(name, _ string) { told = append(told, name) }}
	b := &breaker{most: 3, events: e, jitter: jitter{first: 20 * time.Millisecond, most: 20 * time.Millisecond}}
	for i := 0; i < 3; i++ {
		if !b.admits() {
			t.Error("it is open too early")
		}
		b.fail("no")
	}
	if b.admits() {
		t.Error("it is not open")
	}
	for until := time.Now().Add(10 * time.Second); !b.admits() && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	if b.admits() {
		t.Error("two probes at once")
	}
	b.succeed()
	if !b.admits() {
		t.Error("it is not closed")
	}
	e.tell()
	if want := []string{"breaker_open", "breaker_closed"}; !reflect.DeepEqual(told, want) {
		t.Error(told)
	}
}

func TestJitterIsDecorrelatedAndBounded(t *testing.T) {
	j, seen := jitter{first: 10, most: 1000}, map[time.Duration]bool{}
	for i, last := 0, time.Duration(10); i < 1000; i++ {
		next := j.next()
		if next < 10 || next > 1000 || next > 3*last {
			t.Fatal(last, next)
		}
		last = next
		seen[next] = true
	}
	if len(seen) < 50 {
		t.Error(seen)
	}
}

func TestEventsAreToldInOrderAlsoWhenTheyFail(t *testing.T) {
	var mu sync.Mutex
	var told []string
	e := &events{}
	e.call = func(name, _ string) {
		mu.Lock()
		told = append(told, name)
		mu.Unlock()
		if name == "1" {
			e.add("3", "")
			e.tell() // as of a callback that asks
		}
		if name == "2" {
			panic("as it may")
		}
	}
	e.add("1", "")
	e.add("2", "")
	e.tell()
	if !reflect.DeepEqual(told, []string{"1", "2", "3"}) {
		t.Error(told)
	}
}

func TestBackoffHonoursRetryAfterAndGrows(t *testing.T) {
	longest := func(attempt int) (longest time.Duration) {
		for i := 0; i < 200; i++ {
			if wait := Backoff(attempt, ""); wait > longest {
				longest = wait
			}
			if wait := Backoff(0, "7"); wait < 7*time.Second || wait > 7200*time.Millisecond {
				t.Fatal(wait)
			}
		}
		return longest
	}
	if first, last := longest(0), longest(99); first > 200*time.Millisecond || last < time.Second || last > 10*time.Second {
		t.Error(first, last)
	}
	if wait := Backoff(3, strings.Repeat("9", 30)); wait != Never {
		t.Error(wait)
	}
	soon := time.Now().Add(time.Minute).UTC()
	for _, layout := range []string{http.TimeFormat, time.RFC850, time.ANSIC} {
		if wait, is := RetryAfter(soon.Format(layout)); !is || wait < 55*time.Second || wait > time.Minute {
			t.Error(layout, wait, is)
		}
	}
	if wait, is := RetryAfter("Sun, 06 Nov 1994 08:49:37 GMT"); !is || wait != 0 {
		t.Error(wait, is)
	}
	for _, text := range []string{"", "soon", "-5", "1.5", "Wed, 99 Nov"} {
		if wait, is := RetryAfter(text); is {
			t.Error(text, wait)
		}
	}
}

func TestAttributesOfManyKinds(t *testing.T) {
	pairs, err := Attributes{"a": []byte("x"), "b": 7, "c": true, "d": nil, "e": 1.5, "f": strings.Repeat("x", 9000)}.Pairs()
	found := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		found[pairs[i]] = pairs[i+1]
	}
	want := map[string]string{"a": "x", "b": "7", "c": "true", "e": "1.5", "f": strings.Repeat("x", mostValue)}
	if err != nil || !reflect.DeepEqual(found, want) {
		t.Error(found, err)
	}
	many := Attributes{}
	for i := 0; i < mostAttributes; i++ {
		many[fmt.Sprint("header.", i)] = strings.Repeat("x", 2000)
	}
	pairs, err = many.Pairs()
	if size := len(strings.Join(pairs, "")); err != nil || len(pairs) != 2*mostAttributes || size > mostTotal {
		t.Error(len(pairs), err)
	}
	many["one.more"] = ""
	for text, wrong := range map[string]Attributes{"128": many, "lower case": {"": 1}, "attribute a": {"a": struct{}{}}, "1 to": {}} {
		if _, err := wrong.Pairs(); err == nil || !strings.Contains(err.Error(), text) {
			t.Error(text, err)
		}
	}
}

func TestOptionsBelongToTheirCalls(t *testing.T) {
	for text, wrong := range map[string]error{
		"Take has no option Wait":  second(NewAsk("Take", []Option{Wait(time.Second)})),
		"Renew has no option Cost": second(NewAsk("Renew", []Option{Cost(1)})),
		"cost":                     second(NewAsk("Acquire", []Option{Cost(0)})),
		"for":                      second(NewAsk("Reserve", []Option{For(25 * time.Hour)})),
		"wait":                     second(NewAsk("Check", []Option{Wait(-1)})),
	} {
		if wrong == nil || !strings.Contains(wrong.Error(), text) {
			t.Error(text, wrong)
		}
	}
}

func second(_ Ask, err error) error { return err }

func TestSettingsMustBeRight(t *testing.T) {
	for text, wrong := range map[string]Options{
		"deadline":    {Deadline: time.Hour},
		"connections": {Connections: -1},
		"probes":      {ProbeFirst: time.Second, ProbeMost: time.Millisecond},
		"ration://":   {URL: "ration://:6380"},
		"unix:/path":  {URL: "unix:"},
		"rations://":  {URL: "ration://host:99999"},
		"100 per":     {Policy: "sometimes"},
	} {
		if _, err := New(wrong); err == nil || !strings.Contains(err.Error(), text) {
			t.Error(text, err)
		}
	}
	for _, url := range []string{"http://name:sesame@host", "ration://name:sesame@host:x", "ration://name:sesame@host\n"} {
		if _, err := New(Options{URL: url}); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Error(err)
		}
	}
	c, err := New(Options{URL: "rations://ann:open%20sesame@[::1]"})
	if err != nil {
		t.Fatal(err)
	}
	greeting, count := c.address.greeting()
	if c.address.place != "[::1]:6380" || c.address.url != "rations://[::1]" || c.address.tls.ServerName != "::1" || count != 2 ||
		string(greeting) != string(append(encode("AUTH", "ann", "open sesame"), encode("HELLO", "3")...)) {
		t.Errorf("%+v %q", c.address, greeting)
	}
}
