// SPDX-License-Identifier: Apache-2.0

// What happens without rationd: the policy, the local limit and the breaker.

package ration

import (
	"container/list"
	"fmt"
	"hash/maphash"
	"log"
	"math"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	mostKeys     = 10_000 // of a local limit
	mostWarnings = 8      // until rationd answers again
)

// A Policy decides without rationd.
type Policy struct {
	allows   bool
	local    *localLimit
	localKey []string
}

// NewPolicy reads "allow", "refuse", or a limit such as "100 per second", which holds for each key in this process. The
// first attribute of localKey that is there is the key; without any it is user, api_key or ip.
func NewPolicy(text string, localKey ...string) (*Policy, error) {
	if len(localKey) == 0 {
		localKey = []string{"user", "api_key", "ip"}
	}
	p := &Policy{allows: text == "allow" || text == "", localKey: localKey}
	if p.allows || text == "refuse" {
		return p, nil
	}
	var err error
	p.local, err = newLocalLimit(text)
	return p, err
}

// Decide is for a request with these attributes; why is for logs.
func (p *Policy) Decide(attributes Attributes, cost int64, why string) *Decision {
	for _, name := range p.localKey {
		if value := attributes[name]; value != nil {
			return p.decide(fmt.Sprint(name, "=", value), cost, why)
		}
	}
	return p.decide("", cost, why)
}

func (p *Policy) decide(key string, cost int64, why string) *Decision {
	d := &Decision{Allowed: p.allows, Limit: -1, Remaining: -1, ResetAfter: Never, DecidedBy: -1,
		By: "policy", Why: why, At: time.Now(), Family: "both", Status: 503}
	if p.local != nil {
		p.local.take(d, key, cost)
		d.settle("limits")
		return d
	}
	if !p.allows {
		d.RetryAfter = time.Second
	}
	d.settle("unavailable")
	return d
}

var limitText = regexp.MustCompile(`^(\d{1,15}) per (?:(\d{1,6}) )?(second|minute|hour|day)s?(?: burst (\d{1,15}))?$`)

// localLimit is a token bucket for each key. The keys used last are kept.
type localLimit struct {
	amount, burst float64
	period        time.Duration
	mu            sync.Mutex
	buckets       map[string]*list.Element
	used          *list.List // of *bucket, the one used last in front
}

type bucket struct {
	key  string
	left float64
	at   time.Time
}

func newLocalLimit(text string) (*localLimit, error) {
	found := limitText.FindStringSubmatch(text)
	if found == nil {
		return nil, fmt.Errorf("a policy is 'allow', 'refuse' or a local limit such as '100 per second' or '5 per 10 minutes burst 20', found %q", text)
	}
	number := func(text string, instead float64) float64 {
		if text == "" {
			return instead
		}
		n, _ := strconv.ParseFloat(text, 64) // digits
		return n
	}
	unit := map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[found[3]]
	amount, periods := number(found[1], 0), number(found[2], 1)
	if amount == 0 || periods == 0 {
		return nil, fmt.Errorf("a local limit needs an amount and a period above 0, found %q", text)
	}
	period := secondsToDuration(periods * unit.Seconds())
	return &localLimit{amount: amount, burst: number(found[4], amount), period: period,
		buckets: map[string]*list.Element{}, used: list.New()}, nil
}

func (l *localLimit) take(d *Decision, key string, units int64) {
	cost, rate := float64(units), l.amount/l.period.Seconds()
	l.mu.Lock()
	b := l.find(key, d.At)
	left := math.Min(l.burst, b.left+math.Max(0, d.At.Sub(b.at).Seconds())*rate)
	d.Allowed = left+1e-9 >= cost
	if d.Allowed {
		left -= cost
	}
	b.left, b.at = left, d.At
	l.mu.Unlock()

	d.Limit, d.Remaining = int64(l.burst), int64(math.Max(0, math.Floor(left+1e-9)))
	d.ResetAfter, d.Status, d.DecidedBy = secondsToDuration((l.burst-left)/rate), 429, 0
	switch {
	case d.Allowed:
	case cost > l.burst:
		d.RetryAfter = Never
	default:
		d.RetryAfter = secondsToDuration((cost - left) / rate)
	}
	d.Limits = []Limit{{Limit: d.Limit, Remaining: d.Remaining, ResetAfter: d.ResetAfter, Allowed: d.Allowed,
		Told: true, Amount: l.amount, Period: l.period}}
}

// find has the lock.
func (l *localLimit) find(key string, now time.Time) *bucket {
	if there := l.buckets[key]; there != nil {
		l.used.MoveToFront(there)
		return there.Value.(*bucket)
	}
	b := &bucket{key, l.burst, now}
	l.buckets[key] = l.used.PushFront(b)
	if len(l.buckets) > mostKeys {
		last := l.used.Remove(l.used.Back()).(*bucket)
		delete(l.buckets, last.key)
	}
	return b
}

// jitter is decorrelated: a random time between the first and three times the one before.
type jitter struct{ first, most, last time.Duration }

func (j *jitter) next() time.Duration {
	if j.last < j.first {
		j.last = j.first
	}
	j.last = j.first + time.Duration(random()*float64(3*j.last-j.first))
	if j.last > j.most {
		j.last = j.most
	}
	return j.last
}

func (j *jitter) reset() { j.last = 0 }

// random is from 0 to below 1. The functions of math/rand give the same numbers in every process before Go 1.20.
func random() float64 {
	var seed maphash.Hash
	return float64(seed.Sum64()>>11) / (1 << 53)
}

// breaker is closed; open after so many failures in a row; then one request at a time is a probe.
type breaker struct {
	most   int64
	events *events
	open   atomic.Bool
	failed atomic.Int64
	mu     sync.Mutex
	jitter jitter
	probe  time.Time // when the next request is one
}

// admits tells whether to ask rationd.
func (b *breaker) admits() bool {
	if !b.open.Load() {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.open.Load() && now.Before(b.probe) {
		return false
	}
	b.probe = now.Add(b.jitter.next()) // until the probe has ended, and if it never does
	return true
}

func (b *breaker) succeed() {
	if b.failed.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed.Store(0)
	b.jitter.reset()
	if b.open.Swap(false) {
		b.events.add("breaker_closed", "rationd answers again")
	}
}

func (b *breaker) fail(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed.Add(1) >= b.most && !b.open.Load() {
		b.probe = time.Now().Add(b.jitter.next())
		b.open.Store(true)
		b.events.add("breaker_open", why)
	}
}

// events calls back in order, one event at a time, without a lock: the callback may ask for decisions.
type events struct {
	call    func(name, detail string)
	waiting atomic.Int64
	mu      sync.Mutex
	list    [][2]string
	telling bool
	warned  [][2]string // of warn, which gets one event at a time
}

// warn is in the place of a callback. Each trouble is logged once, until rationd answers again: it may come with every request.
func (e *events) warn(name, detail string) {
	switch name {
	case "connected", "breaker_closed":
		e.warned = nil
	case "connect_failed", "bad_answer", "error_reply", "breaker_open":
		trouble := [2]string{name, detail}
		for _, each := range e.warned {
			if each == trouble {
				return
			}
		}
		if len(e.warned) < mostWarnings {
			e.warned = append(e.warned, trouble)
			log.Printf("ration: %s: %s (without rationd the policy decides)", name, detail)
		}
	}
}

func (e *events) add(name, detail string) {
	if e.call != nil {
		e.mu.Lock()
		e.list = append(e.list, [2]string{name, detail})
		e.waiting.Add(1)
		e.mu.Unlock()
	}
}

func (e *events) tell() {
	if e.waiting.Load() == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.telling {
		return
	}
	e.telling = true
	for len(e.list) > 0 {
		next := e.list[0]
		e.list = e.list[1:]
		e.waiting.Add(-1)
		e.mu.Unlock()
		e.tellOne(next[0], next[1])
		e.mu.Lock()
	}
	e.telling = false
}

func (e *events) tellOne(name, detail string) {
	defer func() {
		if failure := recover(); failure != nil {
			log.Printf("ration: OnEvent failed: %v", failure)
		}
	}()
	e.call(name, detail)
}
