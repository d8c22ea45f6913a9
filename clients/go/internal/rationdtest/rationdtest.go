// SPDX-License-Identifier: Apache-2.0

// Package rationdtest starts a rationd of one's own, on a free port, for tests and benchmarks. The environment variable
// RATION_BUILD names the folder of the program.
package rationdtest

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const patience = time.Minute // until something counts as hung, on a busy machine

// Daemon is a rationd. It keeps its address when it is started again.
type Daemon struct {
	Address string // host:port, or unix:PATH
	folder  string
	options []string
	command *exec.Cmd // nil: not running
	ended   chan error
	log     []string
}

// Build is the folder of rationd and libration.so.0: RATION_BUILD, or build/ here or in a folder above.
func Build() string {
	if folder := os.Getenv("RATION_BUILD"); folder != "" {
		return folder
	}
	folder, _ := os.Getwd()
	for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "build", "rationd")); err == nil {
			break
		}
	}
	return filepath.Join(folder, "build")
}

// Start writes the rules into the folder and waits until rationd is ready. Without an address it takes a free port. Options
// go to rationd as they are, and win over the usual ones.
func Start(folder, rules, address string, options ...string) (*Daemon, error) {
	if address == "" {
		address = FreeAddress()
	}
	file := filepath.Join(folder, "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return nil, err
	}
	d := &Daemon{Address: address, folder: folder, options: append(options, "--config", file, "--resp", address)}
	usual := []string{"--http", "none", "--grpc", "none", "--admin", "none", "--state", "none", "--workers", "1", "--memory", "2M"}
	for i := 0; i < len(usual); i += 2 {
		if !contains(options, usual[i]) {
			d.options = append(d.options, usual[i], usual[i+1])
		}
	}
	return d, d.Start()
}

func contains(list []string, text string) bool {
	for _, each := range list {
		if each == text {
			return true
		}
	}
	return false
}

// URL is the address as a client takes it.
func (d *Daemon) URL() string {
	if strings.HasPrefix(d.Address, "unix:") {
		return d.Address
	}
	return "ration://" + d.Address
}

// Rules is the file that Start wrote.
func (d *Daemon) Rules() string { return filepath.Join(d.folder, "rules.yaml") }

// Start starts it again.
func (d *Daemon) Start() error {
	command := exec.Command(filepath.Join(Build(), "rationd"), d.options...)
	command.Dir = d.folder
	reading, writing, err := os.Pipe()
	if err != nil {
		return err
	}
	command.Stderr = writing
	err = command.Start()
	_ = writing.Close()
	if err != nil {
		return err
	}
	ready := make(chan bool, 1)
	d.command, d.ended, d.log = command, make(chan error, 1), nil
	go func() {
		lines := bufio.NewScanner(reading)
		for is := false; lines.Scan(); {
			if !is {
				d.log = append(d.log, lines.Text())
			}
			if !is && strings.HasPrefix(lines.Text(), "rationd: ready") {
				is = true
				ready <- true
			}
		}
		close(ready)
		_ = reading.Close()
	}()
	go func() { d.ended <- command.Wait() }()
	select {
	case is := <-ready:
		if is {
			return nil
		}
	case <-time.After(patience):
	}
	_ = d.Kill()
	return fmt.Errorf("rationd did not start: %s", strings.Join(d.log, "\n"))
}

// Kill ends it as a crash would.
func (d *Daemon) Kill() error {
	if d.command == nil {
		return nil
	}
	err := d.command.Process.Kill()
	<-d.ended
	d.command = nil
	return err
}

// Stop ends it by SIGTERM, also when it is frozen; the end must be a clean one.
func (d *Daemon) Stop() error {
	if d.command == nil {
		return nil
	}
	_ = d.command.Process.Signal(syscall.SIGCONT)
	_ = d.command.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-d.ended:
		d.command = nil
		return err
	case <-time.After(patience):
		_ = d.Kill()
		return errors.New("rationd did not end")
	}
}

// Freeze stops it until no thread of it runs any more: the kernel reports the stop of the last one.
func (d *Daemon) Freeze() error {
	if err := d.command.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(d.command.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err != syscall.EINTR {
			return err
		}
	}
}

// Thaw lets it go on.
func (d *Daemon) Thaw() error { return d.command.Process.Signal(syscall.SIGCONT) }

var (
	mu     sync.Mutex
	claims []net.Listener
)

// FreeAddress is not on a port that the kernel gives to clients, as a server that is started again would find it taken; nor
// on one that was given out before, here or by a run beside this one: abstract unix sockets are as wide as ports are.
func FreeAddress() string {
	random := rand.New(rand.NewSource(time.Now().UnixNano() + int64(os.Getpid())<<20))
	for {
		port := 10240 + random.Intn(32768-10240)
		claim, err := net.Listen("unix", fmt.Sprintf("@ration test port %d", port))
		if err != nil {
			continue
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		tried, err := net.Listen("tcp", address)
		if err != nil {
			_ = claim.Close()
			continue
		}
		_ = tried.Close()
		mu.Lock()
		defer mu.Unlock()
		claims = append(claims, claim)
		if len(claims) > 200 {
			_ = claims[0].Close()
			claims = claims[1:]
		}
		return address
	}
}

// Wait polls until the condition holds.
func Wait(what string, condition func() bool) error {
	for until := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			return fmt.Errorf("%s did not come about in %v", what, patience)
		}
	}
	return nil
}
