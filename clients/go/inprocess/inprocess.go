// SPDX-License-Identifier: Apache-2.0

// Package inprocess decides in this process, without rationd: libration over the state file that rationd shares. It needs
// cgo, and libration by pkg-config.
//
//	limiter, err := inprocess.Open(inprocess.Options{State: "/var/lib/ration/ration.state", Rules: []string{"/etc/ration/ration.yaml"}})
//	...
//	verdict, err := limiter.Take("ann", "100 per minute", 1)
//
// The same machine, the same user as rationd (or one that may write the state file and the files beside it), and the same
// rules. A Limiter has Check, Report and Release, so that middleware takes it in the place of a client.
package inprocess

/*
#cgo pkg-config: ration
#include "decide.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	ration "github.com/ration/ration/clients/go"
)

const (
	version        = "0.1." // of libration
	mostAttributes = 128
	mostValue      = 8192 // bytes: longer ones are cut
	mostLimits     = 1000 // texts that are read only once
	chargeTime     = 300 * time.Second
)

// Options of Open.
type Options struct {
	State   string        // the file; empty: the memory of this process alone
	Rules   []string      // files and directories
	Policy  string        // what decides where Check cannot (the table is full, say): allow (the default), refuse, or a limit
	Refresh time.Duration // how often overrides and bans are taken over from rationd; 250 ms
}

// Limiter decides, for any number of goroutines.
type Limiter struct {
	handle  *C.struct_ration
	ended   atomic.Bool
	policy  *ration.Policy
	limits  atomic.Pointer[map[string]*C.struct_ration_limit] // replaced, never changed
	mu      sync.Mutex                                        // of replacing it
	closing chan struct{}
	closed  sync.WaitGroup
}

// Verdict is of a limit that came along.
type Verdict struct {
	Allowed    bool
	Limit      uint64
	Remaining  uint64
	RetryAfter time.Duration // or ration.Never
	ResetAfter time.Duration
	Delay      time.Duration // wait that long before going ahead
}

var errClosed = errors.New("ration: the limiter is closed")

// Open creates the state file if it is not there.
func Open(o Options) (*Limiter, error) {
	if found := C.GoString(C.ration_version()); !strings.HasPrefix(found, version) {
		return nil, fmt.Errorf("ration: libration is version %s; this package knows %sx", found, version)
	}
	policy, err := ration.NewPolicy(o.Policy)
	if err != nil {
		return nil, fmt.Errorf("ration: %w", err)
	}
	if o.Refresh == 0 {
		o.Refresh = 250 * time.Millisecond
	}
	if o.Refresh < 0 {
		return nil, fmt.Errorf("ration: refresh must be above 0, found %v", o.Refresh)
	}
	path, failure := C.CString(o.State), C.struct_ration_error{}
	defer C.free(unsafe.Pointer(path))
	handle := C.decide_open(path, &failure)
	if handle == nil {
		return nil, fmt.Errorf("ration: %s: %s", o.State, C.GoString(&failure.text[0]))
	}
	l := &Limiter{handle: handle, policy: policy, closing: make(chan struct{})}
	l.limits.Store(&map[string]*C.struct_ration_limit{})
	if err := l.Load(o.Rules...); err != nil {
		C.ration_close(handle)
		return nil, err
	}
	l.closed.Add(1)
	go l.refresh(o.Refresh)
	return l, nil
}

// Load reads files and directories, in the place of the current rules. The error is a report of what is wrong with them.
func (l *Limiter) Load(rules ...string) error {
	if l.ended.Load() {
		return errClosed
	}
	if len(rules) == 0 {
		return nil
	}
	paths := (**C.char)(C.calloc(C.size_t(len(rules)), C.size_t(unsafe.Sizeof(uintptr(0)))))
	defer C.free(unsafe.Pointer(paths))
	for i, path := range unsafe.Slice(paths, len(rules)) {
		path = C.CString(rules[i])
		defer C.free(unsafe.Pointer(path))
		unsafe.Slice(paths, len(rules))[i] = path
	}
	var report *C.struct_ration_report
	if C.ration_rules_load(l.handle, paths, C.size_t(len(rules)), &report) == 0 {
		C.ration_report_free(report)
		return nil
	}
	if report == nil {
		return errors.New("ration: out of memory")
	}
	defer C.ration_report_free(report)
	return errors.New("ration: " + C.GoString(C.ration_report_text(report)))
}

// Close: no goroutine may be in a call.
func (l *Limiter) Close() error {
	if l.ended.Swap(true) {
		return errClosed
	}
	close(l.closing)
	l.closed.Wait()
	C.ration_close(l.handle)
	for _, limit := range *l.limits.Load() {
		C.free(unsafe.Pointer(limit))
	}
	return nil
}

func (l *Limiter) refresh(every time.Duration) {
	defer l.closed.Done()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			C.ration_clients_refresh(l.handle, nil)
		case <-l.closing:
			return
		}
	}
}

// opened is 0 after Close.
func (l *Limiter) opened() C.uintptr_t {
	if l.ended.Load() {
		return 0
	}
	return C.uintptr_t(uintptr(unsafe.Pointer(l.handle)))
}

// Take decides by a limit that comes along, such as "100 per minute".
func (l *Limiter) Take(key, limit string, cost int64) (Verdict, error) {
	handle := l.opened()
	if handle == 0 {
		return Verdict{}, errClosed
	}
	if cost < 0 {
		return Verdict{}, fmt.Errorf("ration: cost must be a whole number from 0, found %d", cost)
	}
	read := (*l.limits.Load())[limit]
	if read == nil {
		var err error
		if read, err = l.readLimit(limit); err != nil {
			return Verdict{}, err
		}
		if l.limitOf(limit) != read { // there are too many to keep
			defer C.free(unsafe.Pointer(read))
		}
	}
	v := C.decide_take(handle, read, key, C.uint64_t(cost))
	if v.code != 0 {
		return Verdict{}, failureOf(v.code)
	}
	return Verdict{bool(v.allowed), uint64(v.limit), uint64(v.remaining), time.Duration(v.retry_after_ns),
		time.Duration(v.reset_after_ns), time.Duration(v.delay_ns)}, nil
}

func (l *Limiter) limitOf(text string) *C.struct_ration_limit { return (*l.limits.Load())[text] }

// readLimit keeps what it has read, if there is room.
func (l *Limiter) readLimit(text string) (*C.struct_ration_limit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := *l.limits.Load()
	if there := known[text]; there != nil {
		return there, nil
	}
	var failure C.struct_ration_error
	read := C.decide_read_limit(text, &failure)
	if read == nil {
		return nil, fmt.Errorf("ration: in the limit %q: %s", text, C.GoString(&failure.text[0]))
	}
	if len(known) < mostLimits {
		more := make(map[string]*C.struct_ration_limit, len(known)+1)
		for text, limit := range known {
			more[text] = limit
		}
		more[strings.Clone(text)] = read
		l.limits.Store(&more)
	}
	return read, nil
}

// Allows decides by the rules, and tells only whether the request may go ahead: Allows(1, "ip", ip, "path", path). It is
// not for rules with places, charges by outcome or delays.
func (l *Limiter) Allows(cost int64, attributes ...string) (bool, error) {
	handle := l.opened()
	if handle == 0 {
		return false, errClosed
	}
	w := workspaces.Get().(*workspace)
	defer workspaces.Put(w)
	if err := w.fill(cost, attributes); err != nil {
		return false, err
	}
	code := C.decide_allows(handle, &w.lengths[0], (*C.char)(unsafe.Pointer(&w.bytes[0])), C.uint32_t(len(attributes)/2), C.uint64_t(cost))
	if code < 0 {
		return false, failureOf(code)
	}
	return code == 1, nil
}

// Check decides by the rules. With ration.Lease it takes places, too; a request cannot wait in line here. Where libration
// cannot decide, the policy does.
func (l *Limiter) Check(_ context.Context, attributes ration.Attributes, options ...ration.Option) (*ration.Decision, error) {
	ask, err := ration.NewAsk("Check", options)
	if err == nil && ask.Wait != 0 {
		err = errors.New("a request cannot wait in line here; ask rationd, or leave out Wait")
	}
	pairs, wrong := attributes.Pairs()
	w := workspaces.Get().(*workspace)
	defer workspaces.Put(w)
	if err == nil {
		err = wrong
	}
	if err == nil {
		err = w.fill(ask.Cost, pairs)
	}
	if err != nil {
		err = fmt.Errorf("ration: %w", err)
		return l.policy.Decide(attributes, 1, err.Error()), err
	}
	handle := l.opened()
	if handle == 0 {
		return l.policy.Decide(attributes, ask.Cost, errClosed.Error()), nil
	}
	code := C.decide_check(handle, &w.lengths[0], (*C.char)(unsafe.Pointer(&w.bytes[0])), C.uint32_t(len(pairs)/2),
		C.uint64_t(ask.Cost), C.bool(ask.Lease), C.int64_t(chargeTime), &w.outcome, &w.lease[0], &w.charge[0])
	if code != 0 {
		return l.policy.Decide(attributes, ask.Cost, failureOf(code).Error()), nil
	}
	d := decisionOf(&w.outcome)
	d.Lease, d.Charge = C.GoString(&w.lease[0]), C.GoString(&w.charge[0])
	return d, nil
}

// Report tells how the request of a decision with a Charge has ended.
func (l *Limiter) Report(_ context.Context, charge string, status int) (ration.Outcome, error) {
	handle := l.opened()
	switch {
	case status < 0:
		return ration.Unknown, fmt.Errorf("ration: status must be 0 or more, found %d", status)
	case handle == 0 || charge == "":
		return ration.Unknown, nil
	case bool(C.decide_report(handle, charge, C.uint(status))):
		return ration.Settled, nil
	}
	return ration.Ended, nil
}

// Release frees the places of a lease.
func (l *Limiter) Release(_ context.Context, lease string) (ration.Outcome, error) {
	handle := l.opened()
	switch {
	case handle == 0 || lease == "":
		return ration.Unknown, nil
	case bool(C.decide_release(handle, lease)):
		return ration.Settled, nil
	}
	return ration.Ended, nil
}

// workspace is the memory of one decision. It has no pointers to Go's memory that C would see.
type workspace struct {
	lengths [2 * mostAttributes]C.uint32_t
	bytes   []byte
	outcome C.struct_ration_outcome
	lease   [C.RATION_TICKET_SIZE]C.char
	charge  [C.RATION_TICKET_SIZE]C.char
}

var workspaces = sync.Pool{New: func() any { return &workspace{bytes: make([]byte, 1, 512)} }}

// fill puts names and values behind one another.
func (w *workspace) fill(cost int64, pairs []string) error {
	if cost < 0 {
		return fmt.Errorf("ration: cost must be a whole number from 0, found %d", cost)
	}
	if len(pairs)%2 != 0 || len(pairs) > len(w.lengths) {
		return fmt.Errorf("ration: a request has up to %d attributes, each a name and a value, found %d texts", mostAttributes, len(pairs))
	}
	w.bytes = w.bytes[:0]
	for i, text := range pairs {
		if i%2 == 0 && !isName(text) {
			return fmt.Errorf("ration: names of attributes are texts in lower case, found %q", text)
		}
		if len(text) > mostValue {
			text = text[:mostValue]
		}
		w.lengths[i] = C.uint32_t(len(text))
		w.bytes = append(w.bytes, text...)
	}
	w.bytes = append(w.bytes, 0) // there is always a first byte
	return nil
}

func isName(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] >= 'A' && text[i] <= 'Z' {
			return false
		}
	}
	return text != ""
}

func failureOf(code C.int) error {
	return fmt.Errorf("ration: no decision: %s", C.GoString(C.ration_error_text(code)))
}
