// SPDX-License-Identifier: Apache-2.0

// One connection of the pool: its life, and which reply belongs to which request. Callers write, or leave it to the one
// that is writing; a goroutine reads for all of them. Everything is under the lock of the connection but for I/O.

package ration

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	connectTime = time.Second // of connecting, and again of the greeting
	mostUnsent  = 1 << 20     // bytes
	mostWait    = 60_000      // milliseconds in line
)

var errDeadline = errors.New("no answer within the deadline")

// slot is the place of a request among those that await their replies.
type slot struct {
	line       int64  // not 0: may wait in line, under this id
	settle     string // what ends the lease of a reply that comes too late
	sent, ends time.Time
	late       func(reply) // set: nobody waits any more
	over       bool
	done       chan struct{}     // has one item when it is over
	read       func(reply) error // what the reply means; nil: it is an outcome, and nobody waits for it
	err        error             // no reply: the connection is lost
}

func (s *slot) finish(err error) {
	s.over, s.err = true, err
	s.done <- struct{}{}
}

// accept tells whether a reply can be that of the request.
func (s *slot) accept(r reply) error {
	if s.read != nil {
		return s.read(r)
	}
	if r.kind == '-' {
		return nil
	}
	_, err := readOutcome(r)
	return err
}

// conn lives as long as its client, and has one link after the other.
type conn struct {
	client  *Client
	load    atomic.Int64 // replies that are owed; -1: not connected
	mu      sync.Mutex
	link    *link         // nil: not connected
	attempt chan struct{} // nil, or closed when the attempt to connect that is under way has ended
	next    time.Time     // no attempt before
	jitter  jitter
	why     string // it is not connected
}

// link is one life of a connection.
type link struct {
	*conn
	socket   *socket
	stream   net.Conn // the socket, or TLS over it
	owed     []*slot
	lines    map[int64]*slot // those that stand in line
	heard    time.Time
	torn     bool // a part of a reply has arrived
	writing  bool
	unsent   []byte
	lastSent []byte // its memory is used again
}

// --- its life ---------------------------------------------------------------------------

func (c *conn) unlock() {
	c.mu.Unlock()
	c.client.events.tell()
}

// start connects in the background, unless that is under way or was tried a moment ago. Under the lock.
func (c *conn) start(atOnce bool) {
	if c.link == nil && c.attempt == nil && !c.client.closed.Load() && (atOnce || !time.Now().Before(c.next)) {
		c.attempt = make(chan struct{})
		go c.connect()
	}
}

func (c *conn) connect() {
	l, err := c.client.address.open()
	c.mu.Lock()
	defer c.unlock()
	close(c.attempt)
	c.attempt = nil
	switch {
	case err != nil:
		c.why = fmt.Sprintf("cannot connect to %s: %v", c.client.address.url, err)
		c.next = time.Now().Add(c.jitter.next())
		c.client.events.add("connect_failed", c.why)
	case c.client.closed.Load():
		_ = l.stream.Close()
	default:
		l.conn, l.lines, l.heard = c, map[int64]*slot{}, time.Now()
		c.link = l
		c.load.Store(0)
		c.jitter.reset()
		c.client.events.add("connected", c.client.address.url)
		go l.read()
	}
}

// open connects and greets.
func (a *address) open() (*link, error) {
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, a.network, a.place) // TCP without Nagle's algorithm
	if err != nil {
		return nil, err
	}
	l := new(link)
	l.socket, err = newSocket(raw)
	if l.stream = l.socket; err == nil && a.tls != nil {
		secure := tls.Client(l.socket, a.tls)
		l.stream, err = secure, secure.HandshakeContext(ctx)
	}
	if err == nil {
		err = l.greet(a)
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return l, nil
}

func (l *link) greet(a *address) error {
	if err := l.stream.SetReadDeadline(time.Now().Add(connectTime)); err != nil {
		return err
	}
	greeting, count := a.greeting()
	if _, err := l.stream.Write(greeting); err != nil {
		return err
	}
	var in reader
	var replies []reply
	buffer := make([]byte, 4096)
	for len(replies) < count {
		n, err := l.stream.Read(buffer)
		if err != nil {
			return fmt.Errorf("no greeting: %w", err)
		}
		more, err := in.feed(buffer[:n])
		if err != nil {
			return err
		}
		replies = append(replies, more...)
	}
	if len(replies) > count || in.rest != "" {
		return bad("more than a greeting")
	}
	if err := a.checkGreeting(replies); err != nil {
		return err
	}
	return l.stream.SetReadDeadline(time.Time{})
}

// close tells all that wait why. Under the lock.
func (l *link) close(why string) {
	if l.conn.link != l {
		return
	}
	l.conn.link = nil
	l.conn.why = why
	l.load.Store(-1)
	_ = l.stream.Close() // wakes the goroutine that reads
	l.client.events.add("disconnected", why)
	for _, s := range l.owed {
		if s.late == nil {
			s.finish(errors.New(why))
		}
	}
	for _, s := range l.lines {
		if s.late == nil {
			s.finish(errors.New(why))
		}
	}
	l.owed, l.lines, l.unsent = nil, nil, nil
}

func (l *link) closeAfter(answer error) {
	if l.conn.link == l {
		l.client.events.add("bad_answer", answer.Error())
		l.close("bad answer: " + answer.Error())
	}
}

// silent tells whether a reply is owed and nothing has come for too long.
func (l *link) silent() bool {
	if len(l.owed) == 0 {
		return false
	}
	since := l.heard
	if l.owed[0].sent.After(since) {
		since = l.owed[0].sent
	}
	return time.Since(since) > l.client.silence
}

// --- one request --------------------------------------------------------------------------

// ask returns when the slot has read its reply, or why there is none.
func (c *conn) ask(ctx context.Context, s *slot, command []byte) error {
	c.mu.Lock()
	ends := s.ends // it changes when the request stands in line
	l, err := c.ready(ctx, ends)
	if err != nil {
		c.unlock()
		return err
	}
	s.done, s.sent = make(chan struct{}, 1), time.Now()
	l.send(s, command)
	c.unlock()

	timer := time.NewTimer(time.Until(ends))
	defer timer.Stop()
	for {
		err := errDeadline
		select {
		case <-s.done:
			return s.err
		case <-ctx.Done():
			err = ctx.Err()
		case <-timer.C:
		}
		if rest := l.giveUp(s, err); rest <= 0 {
			return s.err
		} else {
			timer.Reset(rest)
		}
	}
}

// giveUp leaves the line or the place of a caller that has waited enough, or returns how long it has still to wait.
func (l *link) giveUp(s *slot, why error) time.Duration {
	l.mu.Lock()
	defer l.unlock()
	if s.over {
		return 0
	}
	if rest := time.Until(s.ends); why == errDeadline && rest > 0 { // it stands in line
		return rest
	}
	s.over, s.err = true, why
	s.late = func(r reply) { l.giveBack(s, r) }
	if l.lines[s.line] == s {
		l.leave(s.line)
	}
	if l.silent() {
		l.close("silent for too long")
	}
	return 0
}

// ready returns the link, once there is one. It gives up the lock while it waits.
func (c *conn) ready(ctx context.Context, ends time.Time) (*link, error) {
	if c.link != nil {
		c.link.check()
	}
	c.start(false)
	if c.link == nil && c.attempt != nil {
		attempt, timer := c.attempt, time.NewTimer(time.Until(ends))
		defer timer.Stop()
		c.mu.Unlock()
		var err error
		select {
		case <-attempt:
		case <-timer.C:
			err = errors.New("connecting takes longer than the deadline")
		case <-ctx.Done():
			err = ctx.Err()
		}
		c.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
	if c.link == nil {
		return nil, errors.New(c.why)
	}
	return c.link, nil
}

// check closes a link that has been silent for too long, has ended, or brings what nobody has asked for.
func (l *link) check() {
	if l.silent() {
		l.close("silent for too long")
	} else if len(l.owed) == 0 && len(l.lines) == 0 {
		arrived, ended := l.socket.look()
		if ended {
			l.close("rationd has closed the connection")
		} else if l.torn || arrived && l.client.address.tls == nil { // TLS has messages of its own
			l.closeAfter(bad("a reply that nobody has asked for"))
		}
	}
}

// send queues a command. Whoever finds nobody writing writes, once; then a goroutine goes on. Under the lock, which it
// gives up while it writes.
func (l *link) send(s *slot, command []byte) {
	l.owed = append(l.owed, s)
	l.load.Store(int64(len(l.owed)))
	l.unsent = append(l.unsent, command...)
	if len(l.unsent) > mostUnsent {
		l.close("it does not take commands any more")
	}
	if l.writing {
		return
	}
	l.writing = true
	l.write()
	if len(l.unsent) == 0 && !l.socket.pending() {
		l.writing = false
		return
	}
	go func() {
		l.mu.Lock()
		defer l.unlock()
		for l.conn.link == l && (len(l.unsent) > 0 || l.socket.pending()) {
			if l.socket.pending() {
				l.flush()
			} else {
				l.write()
			}
		}
		l.writing = false
	}()
}

// flush sends what the kernel has not taken yet: of a long command, or as rationd does not read.
func (l *link) flush() {
	l.mu.Unlock()
	err := l.socket.flush(time.Now().Add(l.client.deadline))
	l.mu.Lock()
	if err != nil {
		l.close(fmt.Sprintf("cannot send: %v", err))
	}
}

func (l *link) write() {
	data := l.unsent
	l.unsent = l.lastSent[:0]
	l.mu.Unlock()
	_, err := l.stream.Write(data)
	l.mu.Lock()
	l.lastSent = data
	if err != nil {
		l.close(fmt.Sprintf("cannot send: %v", err))
	}
}

// --- replies --------------------------------------------------------------------------------

func (l *link) read() {
	var in reader
	buffer := make([]byte, 16384)
	for {
		n, failed := l.stream.Read(buffer)
		replies, answer := in.feed(buffer[:n])
		l.mu.Lock()
		for i := 0; i < len(replies) && answer == nil; i++ {
			answer = l.take(replies[i])
		}
		if len(replies) > 0 {
			l.heard = time.Now()
		}
		l.torn = in.rest != ""
		if answer != nil {
			l.closeAfter(answer)
		} else if failed != nil {
			l.close(fmt.Sprintf("connection lost: %v", failed))
		}
		gone := l.conn.link != l
		l.unlock()
		if gone {
			return
		}
	}
}

// take finds out whose reply it is.
func (l *link) take(r reply) error {
	if l.conn.link != l {
		return nil
	}
	if r.kind == '>' {
		return l.takeTurn(r)
	}
	if len(l.owed) == 0 {
		return bad("a reply that nobody has asked for")
	}
	s := l.owed[0]
	waits := s.line != 0 && r.kind == '*' && len(r.items) == 3 && r.items[0].text == "WAIT" && r.items[1].number == float64(s.line)
	if waits && (r.items[2].kind != ':' || r.items[2].number < 0 || r.items[2].number > mostWait) {
		return bad("no time to wait: %v", r)
	}
	if !waits {
		if err := s.accept(r); err != nil {
			return err
		}
	}
	// Not before: after a bad answer all that are in the queue are answered at once.
	if l.owed[0] = nil; len(l.owed) == 1 {
		l.owed = l.owed[:0] // its memory is used again
	} else {
		l.owed = l.owed[1:]
	}
	l.load.Store(int64(len(l.owed)))
	if waits {
		l.lines[s.line] = s
		s.ends = time.Now().Add(secondsToDuration(r.items[2].number/1000) + l.client.deadline)
		if s.late != nil {
			l.leave(s.line)
		}
		return nil
	}
	s.give(r)
	return nil
}

func (l *link) takeTurn(push reply) error {
	if len(push.items) == 3 && push.items[0].text == "ration.turn" && push.items[1].kind == ':' {
		id := int64(push.items[1].number)
		if s := l.lines[id]; s != nil {
			if err := s.accept(push.items[2]); err != nil {
				return err
			}
			delete(l.lines, id)
			s.give(push.items[2])
			return nil
		}
	}
	return bad("a push that nobody waits for: %v", push)
}

func (s *slot) give(r reply) {
	if s.late != nil {
		s.late(r)
	} else {
		s.finish(nil)
	}
}

// leave: if it comes too late, 0, the decision is under way, and is given back.
func (l *link) leave(line int64) {
	l.tell(func(r reply) {
		if r.kind == ':' && r.number == 1 {
			delete(l.lines, line)
		}
	}, "RATION.LEAVE", strconv.FormatInt(line, 10))
}

// giveBack returns what a reply brings that nobody waits for.
func (l *link) giveBack(s *slot, r reply) {
	for i := 0; r.kind == '%' && i < len(r.items); i += 2 {
		name, value := r.items[i].text, r.items[i+1]
		switch {
		case value.kind != '$':
		case name == "lease" && s.settle != "":
			l.tell(func(reply) {}, s.settle, value.text)
		case name == "turn":
			l.tell(func(reply) {}, "RATION.REFUND", value.text)
		}
	}
}

func (l *link) tell(late func(reply), words ...string) {
	l.send(&slot{late: late, sent: time.Now()}, encode(words...))
}
