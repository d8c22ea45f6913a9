// SPDX-License-Identifier: Apache-2.0

// What a decision costs the program that asks: the client beside a bare socket loop, and libration in the process.
//
// usage: bench [-quick]
//
// It starts a rationd of its own, out of RATION_BUILD. Processor time is that of this process, the best of some rounds;
// rationd's own is not in it. Rates are those of this machine at this moment, with rationd on the same one. The bare loop
// sends a command that is made once, and reads until the reply has all its bytes.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	ration "github.com/ration/ration/clients/go"
	"github.com/ration/ration/clients/go/internal/rationdtest"
)

const (
	rules = "limits:\n  - {name: api, key: ip, limit: 1000000000 per hour, when: {path: /api}}\n"
	limit = "1000000000 per hour"
	many  = 50
)

var (
	asked         = ration.Attributes{"ip": "192.0.2.7", "path": "/api"}
	ctx           = context.Background()
	rounds, calls = 7, 20_000
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// show prints the best processor time of a call, which it returns, and the best rate.
func show(name string, count int, run func()) (us float64) {
	cpu, wall := time.Hour, time.Hour
	for i := 0; i < rounds; i++ {
		began, used := time.Now(), processorTime()
		run()
		if took := time.Since(began); took < wall {
			wall = took
		}
		if took := processorTime() - used; took < cpu {
			cpu = took
		}
	}
	rate := fmt.Sprintf("%.0f", float64(count)/wall.Seconds())
	for at := len(rate) - 3; at > 0; at -= 3 {
		rate = rate[:at] + "," + rate[at:]
	}
	us = float64(cpu.Nanoseconds()) / 1000 / float64(count)
	fmt.Printf("%-44s %8.2f us %12s/s\n", name, us, rate)
	return us
}

func repeat(count int, call func()) func() {
	return func() {
		for i := 0; i < count; i++ {
			call()
		}
	}
}

func together(call func()) func() {
	return func() {
		var group sync.WaitGroup
		for i := 0; i < many; i++ {
			group.Add(1)
			go func() {
				defer group.Done()
				repeat(calls/many, call)()
			}()
		}
		group.Wait()
	}
}

// bare sends and receives, and does nothing else.
func bare(address string) func() {
	conn := must(net.Dial("tcp", address))
	buffer := make([]byte, 65536)
	must(conn.Write([]byte("*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n")))
	must(conn.Read(buffer))
	command := []byte("*8\r\n$12\r\nRATION.CHECK\r\n$2\r\nip\r\n$9\r\n192.0.2.7\r\n$4\r\npath\r\n$4\r\n/api\r\n$4\r\nFULL\r\n$4\r\nWAIT\r\n$6\r\nreturn\r\n")
	return repeat(calls, func() {
		must(conn.Write(command))
		for n := 0; n == 0 || !bytes.HasSuffix(buffer[:n], []byte("\r\n")); {
			n += must(conn.Read(buffer[n:]))
		}
	})
}

func main() {
	quick := flag.Bool("quick", false, "fewer calls")
	if flag.Parse(); *quick {
		rounds, calls = 3, 1_000
	}
	folder := must(os.MkdirTemp("", "ration-bench"))
	defer os.RemoveAll(folder)
	daemon := must(rationdtest.Start(folder, rules, "", "--state", folder+"/state"))
	defer daemon.Stop()
	fmt.Printf("%-44s %11s %14s\n", "client", "CPU a call", "calls")
	show("go bare socket, replies not read", calls, bare(strings.TrimPrefix(daemon.URL(), "ration://")))
	client := must(ration.New(ration.Options{URL: daemon.URL(), Deadline: 5 * time.Second}))
	defer client.Close()
	check := func() { must(client.Check(ctx, asked)) }
	take := func() { must(client.Take(ctx, "ann", limit)) }
	show("go Client.Check(), one at a time", calls, repeat(calls, check))
	show(fmt.Sprintf("go Client.Check(), %d goroutines", many), calls, together(check))
	show("go Client.Take(), one at a time", calls, repeat(calls, take))
	show(fmt.Sprintf("go Client.Take(), %d goroutines", many), calls, together(take))
	inTheProcess(folder)
}
