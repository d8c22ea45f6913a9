// SPDX-License-Identifier: Apache-2.0

// Settings of a client, and the address of rationd.

package ration

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Options are the settings of a client. What is zero has its default.
type Options struct {
	URL         string        // ration://[[name]:token@]host[:port], rations:// by TLS, unix:/path; ration://127.0.0.1:6380
	Policy      string        // what decides without rationd: allow (the default), refuse, or a limit such as "100 per second"
	Deadline    time.Duration // of each call, connecting and queueing included; 50 ms
	Connections int           // at most, each shared by many requests; 2
	Token       string        // for operations that need rights
	TLS         *tls.Config   // for rations://; without it the system's authorities
	Failures    int           // in a row that open the breaker; 5
	Silence     int           // deadlines of silence after which a connection that owes replies is closed; 4
	ProbeFirst  time.Duration // bounds of the time between probes, and between attempts to connect; 100 ms
	ProbeMost   time.Duration // 2 s
	LocalKey    []string      // the first of these attributes is the key of a local limit; user, api_key, ip

	// OnEvent gets what happens: connected, connect_failed, disconnected, bad_answer, error_reply, breaker_open,
	// breaker_closed. It must be quick. It may ask for decisions. Without it troubles are logged, each once until
	// rationd answers again.
	OnEvent func(name, detail string)
}

// withDefaults also says what is wrong.
func (o Options) withDefaults() (Options, error) {
	setDuration := func(to *time.Duration, value time.Duration) {
		if *to == 0 {
			*to = value
		}
	}
	setInt := func(to *int, value int) {
		if *to == 0 {
			*to = value
		}
	}
	setDuration(&o.Deadline, 50*time.Millisecond)
	setDuration(&o.ProbeFirst, 100*time.Millisecond)
	setDuration(&o.ProbeMost, 2*time.Second)
	setInt(&o.Connections, 2)
	setInt(&o.Failures, 5)
	setInt(&o.Silence, 4)
	if o.URL == "" {
		o.URL = "ration://127.0.0.1:6380"
	}
	switch {
	case o.Deadline < time.Millisecond || o.Deadline > time.Minute:
		return o, fmt.Errorf("deadline must be from 1 ms to 60 s, found %v", o.Deadline)
	case o.Connections < 1 || o.Failures < 1 || o.Silence < 1:
		return o, fmt.Errorf("connections, failures and silence must be 1 or more, found %d, %d and %d", o.Connections, o.Failures, o.Silence)
	case o.ProbeFirst < 0:
		return o, fmt.Errorf("the time between probes, ProbeFirst, must not be negative, found %v", o.ProbeFirst)
	case o.ProbeMost < o.ProbeFirst:
		return o, fmt.Errorf("the longest time between probes, ProbeMost, must not be less than ProbeFirst, %v, found %v", o.ProbeFirst, o.ProbeMost)
	}
	return o, nil
}

type address struct {
	url            string // without a token
	network, place string
	name, token    string
	tls            *tls.Config // nil: without
}

var rights = regexp.MustCompile("//.*@") // they do not belong in messages

func notAnAddress(found string) error {
	return fmt.Errorf("the address must be ration://host:port, rations://host:port or unix:/path, found %q", found)
}

func newAddress(o Options) (*address, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, notAnAddress(rights.ReplaceAllString(o.URL, "//"))
	}
	a := &address{network: "tcp", token: o.Token}
	if u.User != nil {
		password, is := u.User.Password()
		a.name = u.User.Username()
		if !is && a.token == "" {
			return nil, fmt.Errorf("a token comes behind a colon: %s://:token@host or %[1]s://name:token@host", u.Scheme)
		}
		if a.token == "" {
			a.token = password
		}
		u.User = nil
	}
	a.url = u.String()
	port := u.Port()
	if port == "" {
		port = "6380"
	}
	number, err := strconv.ParseUint(port, 10, 16)
	a.place = net.JoinHostPort(u.Hostname(), port)
	switch {
	case u.Scheme == "unix" && u.Path != "":
		a.network, a.place, a.url = "unix", u.Path, "unix:"+u.Path
	case (u.Scheme != "ration" && u.Scheme != "rations") || u.Hostname() == "" || err != nil || number == 0:
		return nil, notAnAddress(a.url)
	case u.Scheme != "unix" && strings.Trim(u.Path, "/") != "":
		return nil, fmt.Errorf("an address ends with its port: %q in %q means nothing", u.Path, a.url)
	}
	if u.Scheme != "rations" && o.TLS != nil {
		return nil, fmt.Errorf("TLS is for an address that begins with rations://, found %q", a.url)
	}
	if u.Scheme == "rations" {
		a.tls = &tls.Config{}
		if o.TLS != nil {
			a.tls = o.TLS.Clone()
		}
		if a.tls.ServerName == "" {
			a.tls.ServerName = u.Hostname()
		}
	}
	return a, nil
}

// greeting is what a connection begins with, and how many replies it draws; the last one is that of HELLO.
func (a *address) greeting() ([]byte, int) {
	hello := encode("HELLO", "3")
	switch {
	case a.token == "":
		return hello, 1
	case a.name == "":
		return append(encode("AUTH", a.token), hello...), 2
	}
	return append(encode("AUTH", a.name, a.token), hello...), 2
}

func (a *address) checkGreeting(replies []reply) error {
	for _, r := range replies {
		if r.kind == '-' {
			return bad("refused: %s", r.text)
		}
	}
	server := ""
	hello := replies[len(replies)-1]
	for i := 0; hello.kind == '%' && i < len(hello.items); i += 2 {
		if hello.items[i].text == "server" {
			server = hello.items[i+1].text
		}
	}
	if server != "ration" {
		return bad("%s is no rationd: HELLO answers server %.40q; give the address of its --resp", a.url, server)
	}
	return nil
}
