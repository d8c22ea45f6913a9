// SPDX-License-Identifier: Apache-2.0

// A server whose bytes are given: `fake` of clients/scenarios.yaml.

package tests

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

type fakeAnswer struct {
	send        []byte
	torn, close bool
}

type fakeRationd struct {
	listener net.Listener
	greeting []byte
	then     fakeAnswer
	mu       sync.Mutex
	answers  []fakeAnswer
	seen     []string
	open     []net.Conn
}

var named = regexp.MustCompile("<([a-z-]+)>")

// bytesOf has a byte for each character.
func bytesOf(value any, names map[string]any) []byte {
	text, _ := value.(string)
	text = named.ReplaceAllStringFunc(text, func(name string) string { return names[name[1:len(name)-1]].(string) })
	var out []byte
	for _, c := range text {
		out = append(out, byte(c))
	}
	return out
}

func startFake(fake, names map[string]any) (*fakeRationd, error) {
	f := &fakeRationd{greeting: bytesOf("<hello>", names), then: fakeAnswer{send: bytesOf(fake["then"], names)}}
	if greeting, is := fake["greeting"]; is {
		f.greeting = bytesOf(greeting, names)
	}
	for _, each := range fake["answers"].([]any) {
		if item, is := each.(map[string]any); is {
			f.answers = append(f.answers, fakeAnswer{bytesOf(item["send"], names), item["torn"] == true, item["close"] == true})
		} else {
			f.answers = append(f.answers, fakeAnswer{send: bytesOf(each, names)})
		}
	}
	var err error
	f.listener, err = net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		go f.accept()
	}
	return f, err
}

func (f *fakeRationd) accept() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.open = append(f.open, conn)
		f.mu.Unlock()
		go f.serve(conn)
	}
}

func (f *fakeRationd) url() string { return "ration://" + f.listener.Addr().String() }

// commands are those that have arrived.
func (f *fakeRationd) commands() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.seen...)
}

func (f *fakeRationd) stop() error {
	err := f.listener.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.open {
		_ = conn.Close()
	}
	return err
}

func (f *fakeRationd) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		words, err := readCommand(in)
		if err != nil {
			return // the client has closed it
		}
		if words[0] == "HELLO" {
			_, _ = conn.Write(f.greeting)
			continue
		}
		f.mu.Lock()
		f.seen = append(f.seen, strings.Join(words, " "))
		answer := f.then
		if len(f.answers) > 0 {
			answer, f.answers = f.answers[0], f.answers[1:]
		}
		f.mu.Unlock()
		for rest := answer.send; len(rest) > 0; {
			n := len(rest)
			if answer.torn {
				n = 1
			}
			_, _ = conn.Write(rest[:n])
			rest = rest[n:]
		}
		if answer.close {
			return
		}
	}
}

func readCommand(in *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil || len(line) < 3 {
			return 0, fmt.Errorf("no command: %q, %v", line, err)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	count, err := number()
	words := make([]string, count)
	for i := 0; i < count && err == nil; i++ {
		var size int
		if size, err = number(); err == nil {
			word := make([]byte, size+2)
			_, err = io.ReadFull(in, word)
			words[i] = string(word[:size])
		}
	}
	return words, err
}
