// SPDX-License-Identifier: Apache-2.0

// rationd is killed and frozen while requests come: nobody waits for longer than the deadline, the policy holds, the client
// comes back by itself, and nothing is left behind. Twice; with RATION_SOAK=1 ten times, and then a million requests.
// Figures are printed (go test -v); the bounds asserted are generous, as machines that run tests are busy.

package tests

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	ration "github.com/ration/ration/clients/go"
	"github.com/ration/ration/clients/go/internal/rationdtest"
	"github.com/ration/ration/clients/go/rationgrpc"
	"github.com/ration/ration/clients/go/rationhttp"
)

const (
	failureDeadline = 50 * time.Millisecond
	generous        = time.Second
	callers         = 8
	failureRules    = "limits:\n  - {name: api, key: ip, limit: 1000000000 per hour}\n"
)

func soak(quick, long int) int {
	if os.Getenv("RATION_SOAK") != "" {
		return long
	}
	return quick
}

// seen is what the callers have met: how long each request took, and who decided it.
type seen struct {
	mu                  sync.Mutex
	times, late, sleeps []time.Duration
	by                  map[string]int
	faults              []string
}

func (s *seen) note(took time.Duration, by, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, took)
	if by == "policy" && strings.Contains(why, "deadline") {
		s.late = append(s.late, took)
	}
	s.by[by]++
}

func (s *seen) fault(what any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprint(what))
}

// grows waits for 50 more decisions.
func (s *seen) grows(t *testing.T, by string) {
	t.Helper()
	count := func() (int, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.by[by], len(s.faults) > 0
	}
	goal, _ := count()
	wait(t, "50 more decisions by "+by, func() bool { n, failed := count(); return n >= goal+50 || failed })
}

func percentile(times []time.Duration, share float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	return times[int(share*float64(len(times)-1))]
}

func (s *seen) report(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("%d requests, %d by rationd, %d by policy; p99 %v, most %v; p99 of a mere sleep of %v: %v; deadline passed %d times, p99 of those %v",
		len(s.times), s.by["rationd"], s.by["policy"], percentile(s.times, 0.99), percentile(s.times, 1), failureDeadline,
		percentile(s.sleeps, 0.99), len(s.late), percentile(s.late, 0.99))
	if len(s.faults) > 0 {
		t.Errorf("%d faults: %.500v", len(s.faults), s.faults)
	}
	if p99 := percentile(s.times, 0.99); p99 > failureDeadline+generous {
		t.Errorf("p99 %v", p99)
	}
}

// underLoad has callers that ask again and again. Each round freezes and kills rationd, and waits until the policy decides,
// and until rationd does again.
func underLoad(t *testing.T, daemon *rationdtest.Daemon, request func() (by, why string, err error)) {
	s, stop := &seen{by: map[string]int{}}, make(chan bool)
	var group sync.WaitGroup
	repeat := func(work func()) {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				select {
				case <-stop:
					return
				default:
					work()
				}
			}
		}()
	}
	for i := 0; i < callers; i++ {
		repeat(func() {
			began := time.Now()
			if by, why, err := request(); err != nil {
				s.fault(err)
			} else {
				s.note(time.Since(began), by, why)
			}
			time.Sleep(2 * time.Millisecond)
		})
	}
	repeat(func() { // how long a mere sleep of the deadline takes on this machine meanwhile
		began := time.Now()
		time.Sleep(failureDeadline)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sleeps = append(s.sleeps, time.Since(began))
	})
	defer func() {
		close(stop)
		group.Wait()
		s.report(t)
	}()
	s.grows(t, "rationd")
	for i := 0; i < soak(2, 10); i++ {
		for _, trouble := range [][2]func() error{{daemon.Freeze, daemon.Thaw}, {daemon.Kill, daemon.Start}} {
			if err := trouble[0](); err != nil {
				t.Fatal(err)
			}
			s.grows(t, "policy")
			if err := trouble[1](); err != nil {
				t.Fatal(err)
			}
			s.grows(t, "rationd")
		}
	}
}

func failing(t *testing.T) (*rationdtest.Daemon, *ration.Client) {
	t.Helper()
	daemon := startDaemon(t, t.TempDir(), failureRules, "")
	return daemon, newClient(t, ration.Options{URL: daemon.URL(), Deadline: failureDeadline, ProbeMost: 500 * time.Millisecond})
}

func openFiles() int {
	return len(must(os.ReadDir("/proc/self/fd")))
}

func TestFailuresOfRationdUnderLoadOfHTTP(t *testing.T) {
	files, goroutines := openFiles(), runtime.NumGoroutine()
	daemon, client := failing(t)
	handler := func(w http.ResponseWriter, r *http.Request) {
		d := ration.FromContext(r.Context())
		w.Header().Set("X-By", d.By)
		w.Header().Set("X-Why", d.Why)
	}
	server := httptest.NewServer(rationhttp.Limit{Limiter: client}.Middleware(http.HandlerFunc(handler)))
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	users := &http.Client{Transport: transport, Timeout: time.Minute}
	underLoad(t, daemon, func() (string, string, error) {
		answer, err := users.Get(server.URL)
		if err != nil {
			return "", "", err
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != 200 {
			return "", "", fmt.Errorf("status %d: %v", answer.StatusCode, err)
		}
		return answer.Header.Get("X-By"), answer.Header.Get("X-Why"), nil
	})
	transport.CloseIdleConnections()
	server.Close()
	_ = client.Close()
	_ = daemon.Stop()
	wait(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= goroutines })
	wait(t, "the end of all connections", func() bool { return openFiles() <= files+8 }) // claims of ports, the poller's own
}

func TestFailuresOfRationdUnderLoadOfGRPC(t *testing.T) {
	daemon, client := failing(t)
	limit := rationgrpc.Limit{Limiter: client}
	users := grpcSite(t, limit, health{check: func(ctx context.Context, _ string) error {
		d := ration.FromContext(ctx)
		return grpc.SetHeader(ctx, metadata.Pairs("by", d.By, "why", d.Why))
	}})
	underLoad(t, daemon, func() (string, string, error) {
		headers, err := ask(users, "")
		return one(headers, "by"), one(headers, "why"), err
	})
}

func resident(t *testing.T) (kilobytes int) {
	t.Helper()
	runtime.GC()
	for _, line := range strings.Split(string(must(os.ReadFile("/proc/self/status"))), "\n") {
		if strings.HasPrefix(line, "VmRSS:") {
			fmt.Sscanf(line, "VmRSS: %d", &kilobytes)
		}
	}
	return kilobytes
}

// By rationd, and by the policy with a key for each request.
func TestFailuresLeaveNothingBehindOfManyRequests(t *testing.T) {
	daemon := startDaemon(t, t.TempDir(), failureRules, "")
	client := newClient(t, ration.Options{URL: daemon.URL(), Policy: "5 per second"})
	ask := func(count int) {
		var group sync.WaitGroup
		for i := 0; i < callers; i++ {
			group.Add(1)
			go func(i int) {
				defer group.Done()
				for ; i < count; i += callers {
					must(client.Check(background, ration.Attributes{"ip": fmt.Sprint("192.0.2.", i%250), "path": "/"}))
				}
			}(i)
		}
		group.Wait()
	}
	ask(20_000)
	files, memory, goroutines, requests := openFiles(), resident(t), runtime.NumGoroutine(), soak(20_000, 1_000_000)
	ask(requests)
	t.Logf("%d requests: resident memory grew by %d KB", requests, resident(t)-memory)
	if grown := resident(t) - memory; grown > 16384 {
		t.Errorf("it grew by %d KB", grown)
	}
	if openFiles() != files || runtime.NumGoroutine() > goroutines {
		t.Error(files, openFiles(), goroutines, runtime.NumGoroutine())
	}
	if err := daemon.Kill(); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 25_000; i++ { // the policy keeps 10,000 of them
		must(client.Check(background, ration.Attributes{"ip": fmt.Sprint(i)}))
	}
	if grown := resident(t) - memory; grown > 32768 {
		t.Errorf("it grew by %d KB", grown)
	}
}
