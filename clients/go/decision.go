// SPDX-License-Identifier: Apache-2.0

// A decision: what rationd has answered, or the policy in its place, and how to tell an HTTP client.

package ration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Never is a time that does not come: the RetryAfter of a request that is never admitted.
const Never time.Duration = math.MaxInt64

const (
	integerMost = 999_999_999_999_999 // of structured fields, RFC 9651
	mostLimits  = 64
	mostDelay   = 24 * time.Hour
)

// A Limit is one of those that applied to a request.
type Limit struct {
	Rule       string // empty: the limit came with the request
	Limit      int64  // -1: none
	Remaining  int64
	ResetAfter time.Duration
	Allowed    bool          // whether this limit admits
	Shadow     bool          // it is in shadow mode
	Told       bool          // Allowed, Amount and Period are known: of Check alone
	Amount     float64       // units that come back in a period
	Period     time.Duration // 0: places
}

// A Decision is about one request. Take it as a value that nobody changes.
type Decision struct {
	Allowed    bool
	Rule       string        // that decided; empty: none, or the limit came with the request
	Limit      int64         // -1: none decided
	Remaining  int64         // -1: none decided
	ResetAfter time.Duration // Never: nobody knows
	RetryAfter time.Duration // 0 if allowed; or Never
	Delay      time.Duration // wait that long before going ahead; the client does not
	Waited     time.Duration // in line
	Limits     []Limit
	Soft       bool // admitted above the limit as written
	Shadow     bool // admitted although a rule in shadow mode would have refused
	Banned     bool
	Paused     bool
	Level      int    // of a ban
	Lease      string // for Release, Renew, Commit and Refund; empty: there is nothing to settle
	Charge     string // for Report
	Status     int    // 200, or that of the refusal
	Error      string // of a refusal: rate_limited, denied, banned, paused, unavailable
	By         string // "rationd"; "policy" without it; "libration" in the process
	Why        string // of a decision by policy: the reason, for logs

	// What Headers and Body use besides.
	At        time.Time
	DecidedBy int    // which of Limits; -1: none
	Family    string // of headers: both, x, ietf or none
	Joined    bool   // X-RateLimit-RetryAfter, not X-RateLimit-Retry-After
	Text      string // the rule's own message
}

// A Header is one of HTTP.
type Header struct{ Name, Value string }

// readDecision reads the reply of rationd to what asks for a decision.
func readDecision(r reply) (*Decision, error) {
	m := membersOf(r)
	d := &Decision{By: "rationd", At: time.Now(), Allowed: m.flag("allowed", true), Rule: m.textOrNull("rule"),
		Limit: m.count("limit"), Remaining: m.count("remaining"), ResetAfter: m.seconds("reset_after", Never),
		RetryAfter: m.seconds("retry_after", Never), Delay: m.seconds("delay", 0)}
	limits := m.list("limits")
	if delay := m.find("delay", ":,_", true); delay.number < 0 || d.Delay > mostDelay || len(limits) > mostLimits {
		return nil, bad("no decision: %v", r)
	}
	for _, each := range limits {
		l := membersOf(each)
		d.Limits = append(d.Limits, Limit{Rule: l.textOrNull("rule"), Limit: l.count("limit"), Remaining: l.count("remaining"),
			ResetAfter: l.seconds("reset_after", Never), Allowed: l.flag("allowed", false), Shadow: l.flag("shadow", false),
			Told: l.has("amount", ":,") && l.has("period", ":,_")})
		if last := &d.Limits[len(d.Limits)-1]; last.Told {
			last.Amount, last.Period = l.number("amount", 0), l.seconds("period", 0)
		}
		m.bad = m.bad || l.bad
	}
	by := m.text("by", "limits")
	d.DecidedBy, d.Status = int(m.number("decided_by", -1)), int(m.number("status", 429))
	d.Soft, d.Shadow, d.Joined = m.flag("soft", false), m.flag("shadow", false), m.flag("retryafter", false)
	d.Banned, d.Paused, d.Level = m.flag("banned", false), m.flag("paused", false), int(m.number("level", 0))
	if m.has("waited", ":,") {
		d.Waited = m.seconds("waited", 0)
	}
	d.Family, d.Text = m.text("headers", "both"), m.text("message", "")
	d.Lease, d.Charge = strings.Clone(m.text("lease", "")), strings.Clone(m.text("charge", "")) // they are kept longer than the rest
	if m.bad || d.Status < 200 || d.Status > 599 || !d.Allowed && d.Status < 400 {
		return nil, bad("no decision: %v", r)
	}
	d.settle(by)
	return d, nil
}

// members are those of a map. They come about in the order in which they are asked for.
type members struct {
	items []reply
	next  int
	bad   bool // one is missing, or of another kind
}

func membersOf(r reply) members {
	if r.kind != '%' {
		return members{bad: true}
	}
	return members{items: r.items}
}

// find returns a member whose kind is one of these. Without it, or of another kind, it has none.
func (m *members) find(name, kinds string, must bool) reply {
	for n := 0; n < len(m.items); n += 2 {
		at := m.next + n
		if at >= len(m.items) {
			at -= len(m.items)
		}
		if m.items[at].text == name {
			m.next = at
			m.bad = m.bad || strings.IndexByte(kinds, m.items[at+1].kind) < 0
			return m.items[at+1]
		}
	}
	m.bad = m.bad || must
	return reply{}
}

// has also tells that nothing is wrong with the kind, if it is there.
func (m *members) has(name, kinds string) bool { return m.find(name, kinds, false).kind != 0 }

func (m *members) flag(name string, must bool) bool { return m.find(name, "#", must).number != 0 }

func (m *members) list(name string) []reply { return m.find(name, "*", true).items }

func (m *members) textOrNull(name string) string { return m.find(name, "$_", true).text }

func (m *members) text(name, instead string) string {
	if r := m.find(name, "$", false); r.kind != 0 {
		return r.text
	}
	return instead
}

func (m *members) number(name string, instead float64) float64 {
	if r := m.find(name, ":,", false); r.kind != 0 {
		return r.number
	}
	return instead
}

// count is a number of units; null is -1.
func (m *members) count(name string) int64 {
	r := m.find(name, ":,_", true)
	if r.kind == '_' {
		return -1
	}
	return int64(math.Max(0, math.Min(r.number, 1<<62)))
}

func (m *members) seconds(name string, null time.Duration) time.Duration {
	r := m.find(name, ":,_", true)
	if r.kind == '_' {
		return null
	}
	return secondsToDuration(r.number)
}

// secondsToDuration takes what is longer than 292 years as Never.
func secondsToDuration(seconds float64) time.Duration {
	if seconds >= Never.Seconds() {
		return Never
	}
	return time.Duration(math.Round(math.Max(seconds, 0) * 1e9))
}

// settle sets what follows from the rest: the status of an admission, the error of a refusal.
func (d *Decision) settle(by string) {
	switch {
	case d.Allowed:
		d.Status = 200
	case d.Banned:
		d.Error = "banned"
	case d.Paused:
		d.Error = "paused"
	case by == "deny":
		d.Error = "denied"
	case by == "unavailable":
		d.Error = by
	default:
		d.Error = "rate_limited"
	}
}

// Headers are those of docs/headers.md, in that order.
func (d *Decision) Headers() []Header {
	var out []Header
	add := func(name, value string) { out = append(out, Header{name, value}) }
	retry := ""
	if !d.Allowed && d.RetryAfter != Never {
		retry = strconv.FormatInt(most(1, wholeSeconds(d.RetryAfter)), 10)
	}
	policies, states, told := d.items()
	if d.Family == "both" || d.Family == "x" {
		if d.Limit >= 0 && states != "" {
			add("X-RateLimit-Limit", strconv.FormatInt(d.Limit, 10))
			add("X-RateLimit-Remaining", strconv.FormatInt(most(0, d.Remaining), 10))
			if d.ResetAfter != Never {
				add("X-RateLimit-Reset", strconv.FormatInt(d.resetAt(), 10))
			}
		}
		if retry != "" && d.Joined {
			add("X-RateLimit-RetryAfter", retry)
		} else if retry != "" {
			add("X-RateLimit-Retry-After", retry)
		}
	}
	if (d.Family == "both" || d.Family == "ietf") && states != "" {
		if told {
			add("RateLimit-Policy", policies)
		}
		add("RateLimit", states)
	}
	if retry != "" {
		add("Retry-After", retry)
	}
	if d.Soft && d.Family != "none" {
		add("X-RateLimit-Soft", "1")
	}
	if d.Level > 0 && retry != "" && d.Family != "none" {
		add("X-RateLimit-Ban-Level", strconv.Itoa(d.Level))
	}
	return out
}

// items are the values of RateLimit-Policy and of RateLimit, and whether all is known for the first.
func (d *Decision) items() (policies, states string, told bool) {
	var policy, state []string
	told = true
	for i, name := range policyNames(d.Limits) {
		l := &d.Limits[i]
		if l.Shadow || l.Limit < 0 {
			continue
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
		told = told && l.Told
		policy = append(policy, fmt.Sprintf("%s;q=%d%s", quoted, least(l.Limit, integerMost), l.window()))
		item := fmt.Sprintf("%s;r=%d", quoted, least(most(0, l.Remaining), integerMost))
		if l.ResetAfter != Never {
			item += fmt.Sprintf(";t=%d", wholeSeconds(l.ResetAfter))
		}
		state = append(state, item)
	}
	return strings.Join(policy, ", "), strings.Join(state, ", "), told
}

// window is the time in which the quota comes back, as a parameter.
func (l *Limit) window() string {
	if l.Period == 0 {
		return `;qu="concurrent-requests"`
	}
	seconds := l.Period.Seconds()
	if l.Amount != 0 {
		seconds *= float64(l.Limit) / l.Amount
	}
	return fmt.Sprintf(";w=%.0f", math.Min(math.Ceil(math.Round(seconds*1e6)/1e6), integerMost))
}

// policyNames has each only once: the second limit of a rule is "api-2", unless a rule is really called so.
func policyNames(limits []Limit) []string {
	rules, names := make([]string, len(limits)), make([]string, 0, len(limits))
	for i := range limits {
		rules[i] = strings.Map(func(c rune) rune {
			if c < ' ' || c > '~' {
				return '?'
			}
			return c
		}, limits[i].Rule)
		if rules[i] == "" {
			rules[i] = "default"
		}
	}
	for i, rule := range rules {
		name := rule
		for n := 2; has(names, name) || name != rule && has(rules[i+1:], name); n++ {
			name = fmt.Sprintf("%s-%d", rule, n)
		}
		names = append(names, name)
	}
	return names
}

type shownLimit struct {
	Rule       any `json:"rule"`
	Limit      any `json:"limit"`
	Remaining  any `json:"remaining"`
	ResetAfter any `json:"reset_after"`
}

// shown is a refusal as rationd has it; the first members make it a problem document.
type shown struct {
	Type     string   `json:"type,omitempty"`
	Title    string   `json:"title,omitempty"`
	Status   int      `json:"status,omitempty"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`

	Allowed bool `json:"allowed"`
	shownLimit
	RetryAfter any          `json:"retry_after"`
	Delay      any          `json:"delay"`
	Limits     []shownLimit `json:"limits"`
	Banned     bool         `json:"banned,omitempty"`
	Paused     bool         `json:"paused,omitempty"`
	Level      int          `json:"level,omitempty"`
	Error      string       `json:"error"`
	Window     any          `json:"window"`
	Reset      any          `json:"reset"`
	Message    string       `json:"message,omitempty"`
}

const problemTypes = "https://iana.org/assignments/http-problem-types"

var problems = map[string][2]string{ // by error: type and title
	"rate_limited": {problemTypes + "#quota-exceeded", "Too Many Requests"},
	"denied":       {"about:blank", "Forbidden"},
	"banned":       {problemTypes + "#abnormal-usage-detected", "Too Many Requests"},
	"paused":       {problemTypes + "#temporary-reduced-capacity", "Temporary Reduced Capacity"},
	"unavailable":  {"about:blank", "Service Unavailable"},
}

// Body is the content type and the body of a refusal: a problem document if the header Accept of the request has one.
func (d *Decision) Body(accept string) (contentType string, body []byte) {
	out := shown{Allowed: d.Allowed, shownLimit: showLimit(d.Rule, d.Limit, d.Remaining, d.ResetAfter),
		RetryAfter: jsonSeconds(d.RetryAfter), Delay: jsonSeconds(d.Delay), Limits: []shownLimit{},
		Banned: d.Banned, Paused: d.Paused, Level: d.Level, Error: d.Error, Message: d.Message()}
	for i := range d.Limits {
		l := &d.Limits[i]
		out.Limits = append(out.Limits, showLimit(l.Rule, l.Limit, l.Remaining, l.ResetAfter))
	}
	if d.DecidedBy >= 0 && d.DecidedBy < len(d.Limits) && d.ResetAfter != Never {
		out.Reset = d.resetAt()
		if period := d.Limits[d.DecidedBy].Period; period > 0 {
			out.Window = jsonSeconds(period)
		}
	}
	contentType = "application/json"
	if strings.Contains(strings.ToLower(accept), "application/problem+json") {
		contentType = "application/problem+json"
		d.makeProblem(&out)
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(out) // numbers and texts: nothing that could fail
	return contentType, bytes.TrimSpace(buffer.Bytes())
}

func (d *Decision) makeProblem(out *shown) {
	out.Type, out.Title = problems[d.Error][0], problems[d.Error][1]
	if d.Level > 0 {
		out.Title = "Abnormal Usage Detected"
	}
	out.Status, out.Detail, out.Message = d.Status, out.Message, ""
	for i, name := range policyNames(d.Limits) {
		if l := &d.Limits[i]; l.Told && !l.Allowed && !l.Shadow {
			out.Violated = append(out.Violated, name)
		}
	}
}

// Message is the rule's own, or a sentence for people.
func (d *Decision) Message() string {
	switch {
	case d.Text != "":
		return d.Text
	case d.Error == "denied":
		return "Requests like this one are not allowed."
	case d.RetryAfter == Never:
		return "This request asks for more than its limit ever admits."
	}
	what := map[string]string{"banned": "Banned for a while.", "paused": "Requests of this key are paused.",
		"unavailable": "No decision could be made."}[d.Error]
	if what == "" {
		what = "Too many requests."
	}
	if seconds := wholeSeconds(d.RetryAfter); seconds > 1 {
		return fmt.Sprintf("%s Try again in %d seconds.", what, seconds)
	}
	return what + " Try again in 1 second."
}

// resetAt is Unix time in seconds, rounded up.
func (d *Decision) resetAt() int64 {
	if d.ResetAfter > Never-1<<61 { // the sum would not fit
		return wholeSeconds(d.ResetAfter) + d.At.Unix()
	}
	return wholeSeconds(time.Duration(d.At.UnixNano()) + d.ResetAfter)
}

func showLimit(rule string, limit, remaining int64, reset time.Duration) shownLimit {
	out := shownLimit{ResetAfter: jsonSeconds(reset)}
	if rule != "" {
		out.Rule = rule
	}
	if limit >= 0 {
		out.Limit = limit
	}
	if remaining >= 0 {
		out.Remaining = remaining
	}
	return out
}

// jsonSeconds has three digits behind the point at most, rounded up; Never is null.
func jsonSeconds(d time.Duration) any {
	if d == Never {
		return nil
	}
	return math.Ceil(float64(d)/1e6) / 1e3
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return whole
}

func has(names []string, name string) bool {
	for _, each := range names {
		if each == name {
			return true
		}
	}
	return false
}

func most(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

func least(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}
