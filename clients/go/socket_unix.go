// SPDX-License-Identifier: Apache-2.0

//go:build unix

// What net.Conn cannot do: write without ever waiting, and look at what has arrived while another goroutine reads.

package ration

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// socket keeps its functions and their arguments, so that nothing is allocated for a command.
type socket struct {
	net.Conn
	raw         syscall.RawConn
	mu          sync.Mutex // of what is being sent: TLS writes also from the goroutine that reads
	data        []byte
	rest        []byte // what the kernel has not taken
	sent, seen  int
	failed, end error
	write, peek func(fd uintptr)
	one         [1]byte
}

func newSocket(conn net.Conn) (*socket, error) {
	s := &socket{Conn: conn}
	with, ok := conn.(syscall.Conn)
	if !ok {
		return nil, errors.New("no socket")
	}
	var err error
	s.raw, err = with.SyscallConn()
	s.write = func(fd uintptr) {
		for s.sent, s.failed = syscall.Write(int(fd), s.data); s.failed == syscall.EINTR; {
			s.sent, s.failed = syscall.Write(int(fd), s.data)
		}
		if s.failed == syscall.EAGAIN {
			s.sent, s.failed = 0, nil
		} else if s.failed != nil {
			s.sent = 0
		}
	}
	s.peek = func(fd uintptr) { s.seen, _, s.end = syscall.Recvfrom(int(fd), s.one[:], syscall.MSG_PEEK) }
	return s, err
}

// Write never waits. What the kernel does not take is kept, for flush.
func (s *socket) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rest) > 0 {
		s.rest = append(s.rest, data...)
		return len(data), nil
	}
	s.data = data
	err := s.raw.Control(s.write)
	s.data = nil
	if err == nil {
		err = s.failed
	}
	if err != nil {
		return 0, err
	}
	s.rest = append(s.rest[:0], data[s.sent:]...)
	return len(data), nil
}

// pending tells whether there is something to flush.
func (s *socket) pending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rest) > 0
}

// flush waits until the kernel has taken some of what was kept.
func (s *socket) flush(until time.Time) error {
	if err := s.Conn.SetWriteDeadline(until); err != nil {
		return err
	}
	err := s.raw.Write(func(fd uintptr) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.data = s.rest
		s.write(fd)
		s.data = nil
		s.rest = s.rest[s.sent:]
		return s.sent > 0 || s.failed != nil
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("it does not take commands any more")
	}
	if err != nil {
		return err
	}
	return s.failed
}

// look is for one goroutine at a time: whether something can be read, or the connection has ended.
func (s *socket) look() (arrived, ended bool) {
	if s.raw.Control(s.peek) != nil {
		return false, true
	}
	if s.end == syscall.EAGAIN || s.end == syscall.EINTR {
		return false, false
	}
	return s.seen > 0, s.seen <= 0
}
