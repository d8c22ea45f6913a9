// SPDX-License-Identifier: Apache-2.0

// What a request is asked with: attributes, and options of a call. Mistakes of the program are found here.

package ration

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	mostValue      = 8192 // bytes: longer values are cut
	mostAttributes = 128
	mostTotal      = 200_000 // bytes of all names and values
)

// Attributes of a request, by names in lower case. Values are texts, bytes, numbers or booleans; nil leaves one out.
type Attributes map[string]any

// Pairs returns names and values as rationd takes them, one after the other: long ones are cut.
func (a Attributes) Pairs() ([]string, error) {
	return a.appendTo(make([]string, 0, 2*len(a)))
}

func (a Attributes) appendTo(words []string) ([]string, error) {
	first, size := len(words), 0
	for name, value := range a {
		if value == nil {
			continue
		}
		if name == "" || name != strings.ToLower(name) {
			return words, fmt.Errorf("names of attributes are texts in lower case, found %q", name)
		}
		text, ok := valueText(value)
		if !ok {
			return words, fmt.Errorf("attribute %s must be a text, a number or a boolean, found %T", name, value)
		}
		words = append(words, name, cut(text))
		size += len(name) + len(words[len(words)-1])
	}
	count := len(words) - first
	if len(a) == 0 || count > 2*mostAttributes {
		return words, fmt.Errorf("a request has 1 to %d attributes, found %d", mostAttributes, count/2)
	}
	for i := first; size > mostTotal && i < len(words); i++ {
		if share := mostTotal / count; len(words[i]) > share {
			words[i] = words[i][:share]
		}
	}
	return words, nil
}

func valueText(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, bool, float32, float64, fmt.Stringer:
		return fmt.Sprint(v), true
	}
	return "", false
}

func cut(text string) string {
	if len(text) > mostValue {
		return text[:mostValue]
	}
	return text
}

// cutKey is for where the word RULES would mean attributes: a key of that name gets a space.
func cutKey(key string) string {
	if key == "RULES" {
		return "RULES "
	}
	return cut(key)
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

func checkLimit(limit string) error {
	if limit == "" {
		return errors.New("limit must be a text such as '100 per minute', found an empty one")
	}
	return nil
}

// Ask is how a call differs from the usual one.
type Ask struct {
	Cost  int64 // units or places; 1 unless given
	Wait  time.Duration
	Lease bool
	For   time.Duration // 0: not given
	given string
}

// Option changes a call.
type Option func(*Ask)

// Cost is how many units or places the request takes. With 0 it only looks.
func Cost(units int64) Option { return func(a *Ask) { a.Cost, a.given = units, a.given+"Cost " } }

// Wait lets the request stand in line for that long, from 1 ms to 60 s; 0 does not.
func Wait(most time.Duration) Option { return func(a *Ask) { a.Wait, a.given = most, a.given+"Wait " } }

// Lease takes places, too, where rules limit them: release the lease of the decision.
func Lease() Option { return func(a *Ask) { a.Lease, a.given = true, a.given+"Lease " } }

// For is how long places or a reservation last, from 1 ms to a day.
func For(length time.Duration) Option {
	return func(a *Ask) { a.For, a.given = length, a.given+"For " }
}

var takes = map[string]string{"Check": "Cost Wait Lease", "Take": "Cost", "Acquire": "Cost For", "Reserve": "Cost For",
	"Renew": "For", "Commit": "Cost"}

// NewAsk says what is wrong with the options of a call: Check, Take, Acquire, Reserve, Renew or Commit.
func NewAsk(call string, options []Option) (Ask, error) {
	if len(options) == 0 {
		return Ask{Cost: 1}, nil
	}
	a, least := Ask{Cost: 1}, int64(0)
	for _, option := range options {
		option(&a)
	}
	if a.Lease || call == "Acquire" || call == "Reserve" {
		least = 1
	}
	for _, name := range strings.Fields(a.given) {
		switch {
		case !strings.Contains(takes[call], name):
			return a, fmt.Errorf("%s has no option %s", call, name)
		case name == "Cost" && a.Cost < least:
			return a, fmt.Errorf("cost must be a whole number from %d, found %d", least, a.Cost)
		case name == "Wait" && a.Wait != 0 && (a.Wait < time.Millisecond || a.Wait > time.Minute):
			return a, fmt.Errorf("wait must be from 0.001 to 60 seconds, found %v", a.Wait)
		case name == "For" && (a.For < time.Millisecond || a.For > 24*time.Hour):
			return a, fmt.Errorf("for must be from 0.001 to 86400 seconds, found %v", a.For)
		}
	}
	return a, nil
}

func (a *Ask) forWords() []string {
	if a.For == 0 {
		return nil
	}
	return []string{"FOR", strconv.FormatFloat(a.For.Seconds(), 'f', 3, 64)}
}

type contextKey struct{}

// NewContext is for middleware: the application finds the decision in the context of its request.
func NewContext(ctx context.Context, d *Decision) context.Context {
	return context.WithValue(ctx, contextKey{}, d)
}

// FromContext is the decision about the request, or nil.
func FromContext(ctx context.Context) *Decision {
	d, _ := ctx.Value(contextKey{}).(*Decision)
	return d
}
