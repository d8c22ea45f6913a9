// SPDX-License-Identifier: Apache-2.0

// Executes clients/scenarios.yaml, whose head explains the grammar. What the table calls null is in Go what means that
// there is none: an empty text, -1 of a number of units, ration.Never of a time, ration.Unknown.

package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	ration "github.com/ration/ration/clients/go"
	"github.com/ration/ration/clients/go/internal/rationdtest"
)

const patience = 30 * time.Second

type scenarioTable struct {
	Bytes     map[string]any
	Rules     string
	Scenarios []scenario
}

type scenario struct {
	Name, Rules, Server, Token, Wrong string
	Fake, Client, App                 map[string]any
	Steps                             []step
}

type step = map[string]any

func readTable(t *testing.T) scenarioTable {
	t.Helper()
	file := os.Getenv("RATION_SCENARIOS")
	if file == "" {
		file = "../../scenarios.yaml"
	}
	var found scenarioTable
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, &found)
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (s scenario) asksOverHTTP() bool {
	for _, each := range s.Steps {
		if each["request"] != nil {
			return true
		}
	}
	return false
}

// --- settings -----------------------------------------------------------------------------

func number(value any) float64 {
	switch n := value.(type) {
	case int:
		return float64(n)
	case float64:
		return n
	}
	panic(fmt.Sprintf("no number: %v", value))
}

func seconds(value any) time.Duration {
	return time.Duration(number(value) * float64(time.Second))
}

func optionsOf(url string, settings map[string]any) ration.Options {
	o := ration.Options{URL: url, Deadline: 5 * time.Second, Connections: 1, Failures: 1000}
	for name, value := range settings {
		switch name {
		case "url":
			o.URL = value.(string)
		case "policy":
			o.Policy = value.(string)
		case "deadline":
			if o.Deadline = seconds(value); o.Deadline == 0 {
				o.Deadline = 1 // 0 is the default in Go; this is as wrong
			}
		case "connections":
			o.Connections = value.(int)
		case "failures":
			o.Failures = value.(int)
		case "silence":
			o.Silence = value.(int)
		case "token":
			o.Token = value.(string)
		case "probe_first":
			o.ProbeFirst = seconds(value)
		case "probe_most":
			o.ProbeMost = seconds(value)
		case "local_key":
			for _, each := range value.([]any) {
				o.LocalKey = append(o.LocalKey, each.(string))
			}
		default:
			panic("no such setting: " + name)
		}
	}
	return o
}

// --- what is expected -------------------------------------------------------------------------

type response struct {
	status  int
	headers http.Header
	body    string
}

// plain makes values of any kind comparable with those of the table.
func plain(value any) any {
	switch v := value.(type) {
	case int:
		return float64(v)
	case int64:
		if v < 0 {
			return nil
		}
		return float64(v)
	case time.Duration:
		if v == ration.Never || v < 0 {
			return nil
		}
		return v.Seconds()
	case ration.Outcome:
		return map[ration.Outcome]any{ration.Unknown: nil, ration.Settled: true, ration.Ended: false}[v]
	}
	return value
}

func textOrNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func matches(expected, found any) bool {
	expected, found = plain(expected), plain(found)
	want, is := expected.(map[string]any)
	if !is {
		return reflect.DeepEqual(expected, found)
	}
	if part, is := want["has"]; is {
		return strings.Contains(fmt.Sprint(found), part.(string))
	}
	value, is := found.(float64)
	if text, isText := found.(string); isText {
		var err error
		value, err = strconv.ParseFloat(text, 64)
		is = err == nil
	}
	for name, bound := range want {
		is = is && (name == "at_least" && value >= number(bound) || name == "at_most" && value <= number(bound))
	}
	return is
}

// faultsOf is what does not match.
func faultsOf(expected, found any) []string {
	switch f := found.(type) {
	case *ration.Decision:
		return faultsOfDecision(expected.(map[string]any), f)
	case response:
		return faultsOfResponse(expected.(map[string]any), f)
	}
	if !matches(expected, found) {
		return []string{fmt.Sprintf("%v is not %v", plain(found), expected)}
	}
	return nil
}

func faultsOfDecision(expected map[string]any, d *ration.Decision) []string {
	members := map[string]any{"allowed": d.Allowed, "rule": textOrNull(d.Rule), "limit": d.Limit, "remaining": d.Remaining,
		"reset_after": d.ResetAfter, "retry_after": d.RetryAfter, "delay": d.Delay, "soft": d.Soft, "shadow": d.Shadow,
		"banned": d.Banned, "paused": d.Paused, "level": d.Level, "waited": d.Waited, "status": d.Status,
		"error": textOrNull(d.Error), "by": d.By, "lease": d.Lease != "", "charge": d.Charge != "", "message": d.Message()}
	var faults []string
	for name, value := range expected {
		found, known := members[name]
		switch {
		case name == "headers":
			headers := http.Header{}
			for _, each := range d.Headers() {
				headers.Add(each.Name, each.Value)
			}
			faults = append(faults, faultsOfHeaders(value.(map[string]any), headers)...)
		case name == "why":
			if !strings.Contains(d.Why, value.(string)) {
				faults = append(faults, fmt.Sprintf("%q has no %v", d.Why, value))
			}
		case !known:
			faults = append(faults, "a decision has no "+name)
		case !matches(value, found):
			faults = append(faults, fmt.Sprintf("%s is %v, not %v; %s", name, plain(found), value, d.Why))
		}
	}
	return faults
}

func faultsOfHeaders(expected map[string]any, found http.Header) []string {
	var faults []string
	for name, value := range expected {
		var is any
		if found.Values(name) != nil {
			is = found.Get(name)
		}
		if !matches(value, is) {
			faults = append(faults, fmt.Sprintf("%s: %v is not %v", name, is, value))
		}
	}
	return faults
}

func faultsOfResponse(expected map[string]any, r response) []string {
	var faults []string
	for name, value := range expected {
		switch name {
		case "status":
			if !matches(value, r.status) {
				faults = append(faults, fmt.Sprintf("status %d: %s", r.status, r.body))
			}
		case "body":
			if r.body != value {
				faults = append(faults, fmt.Sprintf("body %q", r.body))
			}
		case "headers":
			faults = append(faults, faultsOfHeaders(value.(map[string]any), r.headers)...)
		case "json":
			var members map[string]any
			if err := json.Unmarshal([]byte(r.body), &members); err != nil {
				faults = append(faults, err.Error())
			}
			for name, value := range value.(map[string]any) {
				if list, is := value.([]any); is && reflect.DeepEqual(list, members[name]) || !is && matches(value, members[name]) {
					continue
				}
				faults = append(faults, fmt.Sprintf("%s: %v is not %v", name, members[name], value))
			}
		default:
			faults = append(faults, "a response has no "+name)
		}
	}
	return faults
}

// --- a run ------------------------------------------------------------------------------------

type run struct {
	t          *testing.T
	daemon     *rationdtest.Daemon // nil: none
	client     *ration.Client
	site       string // of requests: where the middleware is
	mu         sync.Mutex
	events     []string
	remembered map[string]*ration.Decision
}

// runScenario makes a new site, if there is one, for each run.
func runScenario(t *testing.T, table scenarioTable, s scenario, serve func(*testing.T, *ration.Client, map[string]any) string) {
	r := &run{t: t, remembered: map[string]*ration.Decision{}}
	options := optionsOf(r.startServer(table, s), s.Client)
	options.OnEvent = func(name, _ string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, name)
	}
	client, err := ration.New(options)
	if s.Wrong != "" {
		expectMistake(t, s.Wrong, err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if r.client = client; serve != nil {
		r.site = serve(t, client, s.App)
	}
	for _, each := range s.Steps {
		r.take(each)
	}
}

func expectMistake(t *testing.T, want string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("the error is %v, not one with %q", err, want)
	}
}

func (r *run) startServer(table scenarioTable, s scenario) (url string) {
	if s.Fake != nil {
		fake, err := startFake(s.Fake, table.Bytes)
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { _ = fake.stop() })
		return fake.url()
	}
	if s.Server == "none" || s.Wrong != "" {
		return "ration://" + rationdtest.FreeAddress()
	}
	rules, address, folder := table.Rules, "", r.t.TempDir()
	if s.Rules != "" {
		rules = s.Rules
	}
	if s.Token != "" {
		rules += "server: {admin_token: " + s.Token + ", trust_local: false}\n"
	}
	if s.Server == "unix" {
		address = "unix:" + folder + "/resp.sock"
	}
	r.daemon = startDaemon(r.t, folder, rules, address)
	return r.daemon.URL()
}

func startDaemon(t testing.TB, folder, rules, address string, options ...string) *rationdtest.Daemon {
	t.Helper()
	daemon, err := rationdtest.Start(folder, rules, address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := daemon.Stop(); err != nil {
			t.Error(err)
		}
	})
	return daemon
}

func (r *run) take(s step) {
	r.t.Helper()
	harms := map[string]func() error{}
	if r.daemon != nil {
		harms = map[string]func() error{"freeze": r.daemon.Freeze, "thaw": r.daemon.Thaw, "kill": r.daemon.Kill, "start": r.daemon.Start}
	}
	for name, harm := range harms {
		if s[name] != nil {
			if err := harm(); err != nil {
				r.t.Fatal(err)
			}
			return
		}
	}
	if s["events"] != nil {
		r.awaitEvents(s["events"].([]any))
		return
	}
	if wanted, is := s["wrong"]; is {
		if pair, is := s["take"].([]any); is && pair[0] == nil {
			return // a key that is null does not compile in Go
		}
		_, err := r.call(s)
		expectMistake(r.t, wanted.(string), err)
		return
	}
	answers := r.ask(s)
	for _, answer := range answers {
		if expected, is := s["expect"]; is {
			if faults := faultsOf(expected, answer); len(faults) > 0 {
				r.t.Fatalf("%v: %s; events %v", s, strings.Join(faults, "; "), r.seen())
			}
		}
	}
	if wanted, is := s["allowed"]; is {
		allowed := 0
		for _, answer := range answers {
			if answer.(*ration.Decision).Allowed {
				allowed++
			}
		}
		if allowed != wanted {
			r.t.Fatalf("%v: %d are allowed", s, allowed)
		}
	}
	if name, is := s["as"].(string); is {
		r.remembered[name] = answers[len(answers)-1].(*ration.Decision)
	}
}

func (r *run) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.events...)
}

func (r *run) awaitEvents(wanted []any) {
	until := time.Now().Add(patience)
	for !isSubsequence(wanted, r.seen()) {
		if time.Now().After(until) {
			r.t.Fatalf("events %v, not %v", r.seen(), wanted)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func isSubsequence(wanted []any, found []string) bool {
	for _, each := range found {
		if len(wanted) > 0 && wanted[0] == each {
			wanted = wanted[1:]
		}
	}
	return len(wanted) == 0
}

// ask returns all answers; of `until` the last one.
func (r *run) ask(s step) []any {
	timed := func() any {
		began := time.Now()
		answer, err := r.call(s)
		if err != nil {
			r.t.Errorf("%v: %v", s, err)
		}
		if within, is := s["within"]; is && time.Since(began) > seconds(within) {
			r.t.Errorf("%v took %v", s, time.Since(began))
		}
		return answer
	}
	if together, is := s["together"].(int); is {
		answers := make([]any, together)
		var wait sync.WaitGroup
		for i := range answers {
			wait.Add(1)
			go func(i int) {
				defer wait.Done()
				answers[i] = timed()
			}(i)
		}
		wait.Wait()
		return answers
	}
	if s["until"] == true {
		answer := timed()
		for until := time.Now().Add(patience); len(faultsOf(s["expect"], answer)) > 0 && time.Now().Before(until); {
			time.Sleep(20 * time.Millisecond)
			answer = timed()
		}
		return []any{answer}
	}
	times, is := s["times"].(int)
	if !is {
		times = 1
	}
	var answers []any
	for i := 0; i < times; i++ {
		answers = append(answers, timed())
	}
	return answers
}

func attributesOf(value any) ration.Attributes {
	found := ration.Attributes{}
	for name, each := range value.(map[string]any) {
		if long, is := each.(map[string]any); is {
			each = strings.Repeat(long["repeat"].(string), long["count"].(int))
		}
		found[name] = each
	}
	return found
}

func (r *run) call(s step) (any, error) {
	ctx, c := context.Background(), r.client
	var options []ration.Option
	if cost, is := s["cost"]; is {
		options = append(options, ration.Cost(int64(cost.(int))))
	}
	if wait, is := s["wait"]; is {
		options = append(options, ration.Wait(seconds(wait)))
	}
	if length, is := s["seconds"]; is {
		options = append(options, ration.For(seconds(length)))
	}
	if s["lease"] == true {
		options = append(options, ration.Lease())
	}
	for verb, what := range s {
		pair, _ := what.([]any)
		ticket := &ration.Decision{}
		if name, is := what.(string); is && verb != "as" {
			ticket = r.remembered[name]
		}
		switch verb {
		case "check":
			return c.Check(ctx, attributesOf(what), options...)
		case "take":
			return c.Take(ctx, pair[0].(string), pair[1].(string), options...)
		case "acquire":
			if pair == nil {
				return c.AcquireByRules(ctx, attributesOf(what), options...)
			}
			return c.Acquire(ctx, pair[0].(string), pair[1].(string), options...)
		case "reserve":
			if pair == nil {
				return c.ReserveByRules(ctx, attributesOf(what), options...)
			}
			return c.Reserve(ctx, pair[0].(string), pair[1].(string), options...)
		case "release":
			return c.Release(ctx, ticket.Lease)
		case "renew":
			return c.Renew(ctx, ticket.Lease, options...)
		case "commit":
			return c.Commit(ctx, ticket.Lease, options...)
		case "refund":
			return c.Refund(ctx, ticket.Lease)
		case "report":
			return c.Report(ctx, ticket.Charge, s["status"].(int))
		case "pause":
			return c.Pause(ctx, pair[0].(string), fmt.Sprint(pair[1]))
		case "request":
			return r.request(pair[0].(string), pair[1].(string), s["headers"])
		}
	}
	return nil, fmt.Errorf("no verb in %v", s)
}

func (r *run) request(method, target string, headers any) (any, error) {
	request, err := http.NewRequest(method, r.site+target, nil)
	if err != nil {
		return nil, err
	}
	if headers != nil {
		for name, value := range headers.(map[string]any) {
			request.Header.Set(name, value.(string))
		}
	}
	answer, err := browser.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return response{answer.StatusCode, answer.Header, string(body)}, err
}
