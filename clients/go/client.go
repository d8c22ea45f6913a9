// SPDX-License-Identifier: Apache-2.0

// Package ration is a client of rationd, the rate limiter.
//
//	limiter, err := ration.New(ration.Options{URL: "ration://127.0.0.1:6380"})
//	...
//	decision, err := limiter.Check(ctx, ration.Attributes{"ip": "192.0.2.7", "path": "/login"})
//
// No call lasts longer than the deadline. If rationd is slow, hung or gone, the policy decides. An error is a mistake of
// the program, such as a negative cost, and nothing else; the decision beside it is by the policy, and never nil.
package ration

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Version of this module.
const Version = "0.1.0"

// Outcome answers what settles a lease or a charge.
type Outcome int

const (
	Unknown Outcome = iota // nobody knows: without rationd, or without a lease
	Settled
	Ended // it had been settled before, or has expired; of Report: nothing was charged
)

func (o Outcome) String() string { return [...]string{"unknown", "settled", "ended"}[o] }

// Limiter is what middleware needs: a Client, or decisions in the process.
type Limiter interface {
	Check(ctx context.Context, attributes Attributes, options ...Option) (*Decision, error)
	Report(ctx context.Context, charge string, status int) (Outcome, error)
	Release(ctx context.Context, lease string) (Outcome, error)
}

// Client asks one rationd, for any number of goroutines. A context counts besides the client's own deadline.
type Client struct {
	address  *address
	deadline time.Duration
	silence  time.Duration
	policy   *Policy
	breaker  breaker
	events   events
	pool     []*conn
	lines    atomic.Int64
	closed   atomic.Bool
}

// New connects to nothing: the first request does.
func New(options Options) (*Client, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("ration: %w", err)
	}
	c := &Client{deadline: o.Deadline, silence: time.Duration(o.Silence) * o.Deadline}
	if c.address, err = newAddress(o); err == nil {
		c.policy, err = NewPolicy(o.Policy, o.LocalKey...)
	}
	if err != nil {
		return nil, fmt.Errorf("ration: %w", err)
	}
	if c.events.call = o.OnEvent; o.OnEvent == nil {
		c.events.call = c.events.warn
	}
	probes := jitter{first: o.ProbeFirst, most: o.ProbeMost}
	c.breaker = breaker{most: int64(o.Failures), events: &c.events, jitter: probes}
	for i := 0; i < o.Connections; i++ {
		c.pool = append(c.pool, &conn{client: c, jitter: probes, why: "not connected"})
		c.pool[i].load.Store(-1)
	}
	return c, nil
}

// Close ends all connections. The policy answers what is under way, and every later call.
func (c *Client) Close() error {
	c.closed.Store(true)
	for _, each := range c.pool {
		each.mu.Lock()
		each.why = "the client is closed"
		if each.link != nil {
			each.link.close(each.why)
		}
		each.unlock()
	}
	return nil
}

// Check decides by the rules. Options: Cost, Wait, Lease.
func (c *Client) Check(ctx context.Context, attributes Attributes, options ...Option) (*Decision, error) {
	ask, err := NewAsk("Check", options)
	words, line := []string{"RATION.CHECK"}, int64(0)
	if err == nil {
		words, err = attributes.appendTo(words)
	}
	if err != nil {
		return c.mistake(attributes, err)
	}
	if ask.Cost != 1 {
		words = append(words, "COST", text(ask.Cost))
	}
	words = append(words, "FULL")
	if ask.Lease {
		words = append(words, "LEASE")
	}
	if ask.Wait > 0 {
		line = c.lines.Add(1)
		words = append(words, "LINE", text(line), "WAIT", text(ask.Wait.Milliseconds()))
	} else {
		words = append(words, "WAIT", "return")
	}
	s := &slot{settle: "RATION.RELEASE", line: line}
	return c.decide(ctx, s, words, func(why string) *Decision { return c.policy.Decide(attributes, ask.Cost, why) }), nil
}

// Take decides by a limit that comes along, such as "100 per minute". Options: Cost.
func (c *Client) Take(ctx context.Context, key, limit string, options ...Option) (*Decision, error) {
	ask, err := NewAsk("Take", options)
	if err == nil {
		err = checkLimit(limit)
	}
	if err != nil {
		return c.mistake(nil, err)
	}
	words := append(make([]string, 0, 4), "RATION.TAKE", cut(key), cut(limit))
	if ask.Cost != 1 {
		words = append(words, text(ask.Cost))
	}
	return c.decide(ctx, &slot{settle: "RATION.RELEASE"}, words, func(why string) *Decision { return c.policy.decide(key, ask.Cost, why) }), nil
}

// Acquire takes places under a limit such as "20 concurrent"; release the lease of the decision. Options: Cost, For.
func (c *Client) Acquire(ctx context.Context, key, limit string, options ...Option) (*Decision, error) {
	return c.hold(ctx, "Acquire", key, limit, nil, options)
}

// AcquireByRules takes places under the rules. Options: Cost, For.
func (c *Client) AcquireByRules(ctx context.Context, attributes Attributes, options ...Option) (*Decision, error) {
	return c.hold(ctx, "Acquire", "", "", attributes, options)
}

// Reserve charges now; commit or refund the lease of the decision. Options: Cost, For.
func (c *Client) Reserve(ctx context.Context, key, limit string, options ...Option) (*Decision, error) {
	return c.hold(ctx, "Reserve", key, limit, nil, options)
}

// ReserveByRules charges by the rules. Options: Cost, For.
func (c *Client) ReserveByRules(ctx context.Context, attributes Attributes, options ...Option) (*Decision, error) {
	return c.hold(ctx, "Reserve", "", "", attributes, options)
}

// hold is for places and reservations, of a key and a limit or, without a limit, by the rules.
func (c *Client) hold(ctx context.Context, name, key, limit string, attributes Attributes, options []Option) (*Decision, error) {
	ask, err := NewAsk(name, options)
	byRules, reserves := attributes != nil || limit == "" && key == "", name == "Reserve"
	words, s := []string{"RATION.ACQUIRE"}, &slot{settle: "RATION.RELEASE"}
	if reserves {
		words[0], s.settle = "RATION.RESERVE", "RATION.REFUND"
	}
	instead := func(why string) *Decision { return c.policy.decide(key, ask.Cost, why) }
	switch {
	case err != nil:
	case byRules:
		words, err = attributes.appendTo(append(words, "RULES"))
		instead = func(why string) *Decision { return c.policy.Decide(attributes, ask.Cost, why) }
	default:
		words, err = append(words, cutKey(key), cut(limit)), checkLimit(limit)
	}
	if err != nil {
		return c.mistake(attributes, err)
	}
	if !reserves || byRules {
		words = append(words, "COST")
	}
	words = append(words, text(ask.Cost))
	words = append(append(words, ask.forWords()...), "WAIT", "return")
	return c.decide(ctx, s, words, instead), nil
}

// Release frees the places of a lease. As all that settle it answers Unknown without one, which a decision by policy has not.
func (c *Client) Release(ctx context.Context, lease string) (Outcome, error) {
	return c.settle(ctx, "RATION.RELEASE", lease), nil
}

// Renew keeps the places from now on. Options: For.
func (c *Client) Renew(ctx context.Context, lease string, options ...Option) (Outcome, error) {
	ask, err := NewAsk("Renew", options)
	if err != nil {
		return Unknown, err
	}
	return c.settle(ctx, "RATION.RENEW", lease, ask.forWords()...), nil
}

// Commit keeps what the reservation was, or its Cost if that is given, and gives back the rest. Options: Cost.
func (c *Client) Commit(ctx context.Context, lease string, options ...Option) (Outcome, error) {
	ask, err := NewAsk("Commit", options)
	switch {
	case err != nil:
		return Unknown, err
	case len(options) == 0:
		return c.settle(ctx, "RATION.COMMIT", lease), nil
	}
	return c.settle(ctx, "RATION.COMMIT", lease, text(ask.Cost)), nil
}

// Refund gives back all of a reservation.
func (c *Client) Refund(ctx context.Context, lease string) (Outcome, error) {
	return c.settle(ctx, "RATION.REFUND", lease), nil
}

// Report tells how the request of a decision with a Charge has ended.
func (c *Client) Report(ctx context.Context, charge string, status int) (Outcome, error) {
	if status < 0 {
		return Unknown, fmt.Errorf("ration: status must be 0 or more, found %d", status)
	}
	return c.settle(ctx, "RATION.CHARGE", charge, text(int64(status))), nil
}

// Pause refuses a key for a length: seconds, or a Retry-After as it was received; the empty one of a response without it
// does nothing. It returns the time that is left; below 0 nobody knows. The error is always nil.
func (c *Client) Pause(ctx context.Context, key, length string) (time.Duration, error) {
	if length == "" {
		return -1, nil
	}
	words := []string{"RATION.PAUSE", cutKey(key), cut(length)}
	return ask(ctx, c, &slot{}, words, func(r reply) (time.Duration, error) {
		if r.kind != ':' {
			return -1, bad("no milliseconds: %v", r)
		}
		return secondsToDuration(r.number / 1000), nil
	}, func(string) time.Duration { return -1 }), nil
}

func (c *Client) mistake(attributes Attributes, err error) (*Decision, error) {
	err = fmt.Errorf("ration: %w", err)
	return c.policy.Decide(attributes, 1, err.Error()), err
}

func (c *Client) decide(ctx context.Context, s *slot, words []string, instead func(why string) *Decision) *Decision {
	return ask(ctx, c, s, words, readDecision, instead)
}

func (c *Client) settle(ctx context.Context, command, ticket string, words ...string) Outcome {
	if ticket == "" {
		return Unknown
	}
	return ask(ctx, c, &slot{}, append([]string{command, cut(ticket)}, words...), readOutcome, func(string) Outcome { return Unknown })
}

func readOutcome(r reply) (Outcome, error) {
	switch {
	case r.kind == ':' && r.number == 1:
		return Settled, nil
	case r.kind == ':' && r.number == 0:
		return Ended, nil
	}
	return Unknown, bad("neither 0 nor 1: %v", r)
}

// ask sends a command, and answers what read makes of the reply, or what is there instead.
func ask[T any](ctx context.Context, c *Client, s *slot, words []string, read func(reply) (T, error), instead func(why string) T) T {
	defer c.events.tell()
	s.ends = time.Now().Add(c.deadline)
	if err := ctx.Err(); err != nil {
		return instead(err.Error())
	}
	if !c.breaker.admits() {
		return instead("the breaker is open")
	}
	var answer T
	refused, refusal := false, ""
	s.read = func(r reply) (err error) {
		if r.kind == '-' {
			refused, refusal = true, r.text
		} else {
			answer, err = read(r)
		}
		return err
	}
	err := c.pick().ask(ctx, s, encode(words...))
	if err == nil {
		c.breaker.succeed() // also by an error: it answers, if not what was hoped for
		if !refused {
			return answer
		}
		c.events.add("error_reply", refusal)
		return instead("rationd has answered: " + refusal)
	}
	if ctx.Err() == nil { // a caller that has no time is no failure of rationd
		c.breaker.fail(err.Error())
	}
	return instead(err.Error())
}

// pick prefers the connection that owes the fewest replies, and has those made that are not there.
func (c *Client) pick() *conn {
	best, load := c.pool[0], int64(-1)
	for _, each := range c.pool {
		owes := each.load.Load()
		if owes < 0 {
			each.mu.Lock()
			each.start(c.breaker.open.Load())
			each.unlock()
		} else if load < 0 || owes < load {
			best, load = each, owes
		}
	}
	return best
}

var _ Limiter = (*Client)(nil)
