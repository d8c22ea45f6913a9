// SPDX-License-Identifier: Apache-2.0

// What the table of scenarios cannot say: contexts, TLS, callbacks, Close, servers that do not take what is sent.

package tests

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	ration "github.com/ration/ration/clients/go"
	"github.com/ration/ration/clients/go/internal/rationdtest"
)

const rules = "limits:\n  - {name: api, key: ip, limit: 100 per hour}\n"

var background = context.Background()

func newClient(t testing.TB, options ration.Options) *ration.Client {
	t.Helper()
	if options.Deadline == 0 {
		options.Deadline = 5 * time.Second
	}
	client, err := ration.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// must is for calls whose arguments are right.
func must[T any](answer T, err error) T {
	if err != nil {
		panic(err)
	}
	return answer
}

func wait(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if err := rationdtest.Wait(what, condition); err != nil {
		t.Fatal(err)
	}
}

func TestACallThatIsCancelledGivesItsPlaceBack(t *testing.T) {
	t.Parallel()
	daemon := startDaemon(t, t.TempDir(), rules, "")
	client := newClient(t, ration.Options{URL: daemon.URL(), Connections: 1})
	must(client.Take(background, "warm", "9 per hour"))
	if err := daemon.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(background)
	time.AfterFunc(10*time.Millisecond, cancel)
	began := time.Now()
	if d := must(client.Acquire(ctx, "job", "1 concurrent")); d.By != "policy" || !strings.Contains(d.Why, "canceled") || d.Lease != "" {
		t.Errorf("%+v", d)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := daemon.Thaw(); err != nil {
		t.Fatal(err)
	}
	wait(t, "the place", func() bool { return must(client.Acquire(background, "job", "1 concurrent")).Allowed })
}

func TestTheDeadlineOfAContextCounts(t *testing.T) {
	t.Parallel()
	daemon := startDaemon(t, t.TempDir(), rules, "")
	client := newClient(t, ration.Options{URL: daemon.URL(), Deadline: 30 * time.Second, Policy: "refuse", Failures: 1})
	ask := func() *ration.Decision {
		ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
		defer cancel()
		return must(client.Take(ctx, "ann", "900 per hour"))
	}
	must(client.Take(background, "warm", "9 per hour"))
	if err := daemon.Freeze(); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 3; i++ {
		began := time.Now()
		if d := ask(); d.By != "policy" || d.Status != 503 || !strings.Contains(d.Why, "deadline") {
			t.Errorf("%+v", d)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	}
	if err := daemon.Thaw(); err != nil {
		t.Fatal(err)
	}
	// Callers without time are no failures of rationd: the breaker is closed.
	if d := must(client.Take(background, "ann", "900 per hour")); d.By != "rationd" {
		t.Errorf("%+v", d)
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	if d := must(client.Take(ctx, "ann", "900 per hour")); d.By != "policy" {
		t.Errorf("%+v", d)
	}
}

// The caller leaves the line. If that comes too late, 0, it gives back what the push brings.
func TestACallerThatGivesUpInLineLeavesIt(t *testing.T) {
	t.Parallel()
	table := readTable(t)
	late := "%10" + strings.TrimPrefix(table.Bytes["seven"].(string), "%8")
	for left, want := range map[string][]string{
		":1\r\n": {"RATION.LEAVE 1"},
		":0\r\n>3\r\n$11\r\nration.turn\r\n:1\r\n" + late + "$5\r\nlease\r\n$1\r\nL\r\n$4\r\nturn\r\n$1\r\nT\r\n": {"RATION.LEAVE 1", "RATION.RELEASE L", "RATION.REFUND T"},
	} {
		answers := []any{"*3\r\n$4\r\nWAIT\r\n:1\r\n:50000\r\n", left, ":1\r\n", ":1\r\n"}[:len(want)+1]
		fake := must(startFake(map[string]any{"answers": append(answers, "<six>")}, table.Bytes))
		defer fake.stop()
		client := newClient(t, ration.Options{URL: fake.url(), Connections: 1, Policy: "refuse"})
		ctx, cancel := context.WithCancel(background)
		done := make(chan *ration.Decision, 1)
		go func() {
			done <- must(client.Check(ctx, ration.Attributes{"ip": "192.0.2.7"}, ration.Lease(), ration.Wait(time.Minute)))
		}()
		wait(t, "the command", func() bool { return len(fake.commands()) == 1 })
		cancel()
		if d := <-done; d.By != "policy" || !strings.Contains(d.Why, "canceled") {
			t.Errorf("%+v", d)
		}
		wait(t, "what the caller leaves behind", func() bool { return len(fake.commands()) == len(want)+1 })
		for i, command := range fake.commands() {
			if i > 0 && command != want[i-1] {
				t.Errorf("%q is not %q", command, want[i-1])
			}
		}
		if d := must(client.Check(background, ration.Attributes{"ip": "192.0.2.7"})); d.By != "rationd" || d.Remaining != 6 {
			t.Errorf("%+v", d)
		}
	}
}

func TestCloseAnswersThoseThatWait(t *testing.T) {
	t.Parallel()
	daemon := startDaemon(t, t.TempDir(), rules, "")
	client := newClient(t, ration.Options{URL: daemon.URL(), Deadline: 30 * time.Second})
	must(client.Check(background, ration.Attributes{"ip": "192.0.2.7"}, ration.Cost(100)))
	answers := make(chan *ration.Decision, 1)
	go func() {
		answers <- must(client.Check(background, ration.Attributes{"ip": "192.0.2.7"}, ration.Wait(time.Minute)))
	}()
	time.AfterFunc(50*time.Millisecond, func() { _ = client.Close() })
	if d := <-answers; d.By != "policy" || !strings.Contains(d.Why, "closed") {
		t.Errorf("%+v", d)
	}
	if d := must(client.Take(background, "ann", "9 per hour")); d.By != "policy" || !strings.Contains(d.Why, "closed") {
		t.Errorf("%+v", d)
	}
}

func TestACallbackMayFailAndMayAsk(t *testing.T) {
	t.Parallel()
	daemon := startDaemon(t, t.TempDir(), rules, "")
	var client *ration.Client
	var mu sync.Mutex
	var told []string
	client = newClient(t, ration.Options{URL: daemon.URL(), Connections: 1, OnEvent: func(name, _ string) {
		mu.Lock()
		told = append(told, name)
		mu.Unlock()
		must(client.Take(background, "from the callback", "9 per hour"))
		panic(name)
	}})
	if d := must(client.Take(background, "ann", "9 per hour")); d.By != "rationd" {
		t.Errorf("%+v", d)
	}
	if err := daemon.Kill(); err != nil {
		t.Fatal(err)
	}
	must(client.Take(background, "ann", "9 per hour"))
	wait(t, "the event", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return isSubsequence([]any{"connected", "disconnected"}, told)
	})
}

// A server that greets and then reads nothing at all.
func TestACallerNeverWaitsForAServerThatTakesNothing(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	table := readTable(t)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write(bytesOf("<hello>", table.Bytes))
			defer conn.Close()
		}
	}()
	const deadline = 200 * time.Millisecond
	client := newClient(t, ration.Options{URL: "ration://" + listener.Addr().String(), Deadline: deadline, Silence: 1000, Failures: 1 << 30,
		Policy: "refuse"})
	asked := ration.Attributes{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"} {
		asked["header."+name] = strings.Repeat("x", 8192)
	}
	var group sync.WaitGroup
	for i := 0; i < 200; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			began := time.Now()
			if d := must(client.Check(background, asked)); d.By != "policy" {
				t.Errorf("%+v", d)
			}
			if took := time.Since(began); took > deadline+5*time.Second {
				t.Errorf("it took %v", took)
			}
		}()
	}
	group.Wait()
}

func TestAServerThatSaysMoreThanAGreetingIsNoConnection(t *testing.T) {
	t.Parallel()
	for _, greeting := range []string{"<hello><six>", "<hello>%8\r\n"} {
		fake := must(startFake(map[string]any{"greeting": greeting, "answers": []any{}}, readTable(t).Bytes))
		defer fake.stop()
		client := newClient(t, ration.Options{URL: fake.url(), Policy: "refuse"})
		if d := must(client.Take(background, "ann", "9 per hour")); d.By != "policy" || !strings.Contains(d.Why, "more than a greeting") {
			t.Errorf("%+v", d)
		}
	}
}

func TestClientsLeaveNoGoroutines(t *testing.T) {
	daemon := startDaemon(t, t.TempDir(), rules, "") // not parallel: it counts all goroutines
	before := runtime.NumGoroutine()
	for i := 0; i < 20; i++ {
		client := must(ration.New(ration.Options{URL: daemon.URL(), Deadline: 5 * time.Second, Connections: 3}))
		var group sync.WaitGroup
		for j := 0; j < 10; j++ {
			group.Add(1)
			go func() {
				defer group.Done()
				must(client.Take(background, "ann", "900 per hour"))
			}()
		}
		group.Wait()
		_ = client.Close()
	}
	wait(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
}

// authority signs a certificate for 127.0.0.1.
func authority(t *testing.T, folder string) (trust *x509.CertPool, cert, key string) {
	t.Helper()
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))
	trust = x509.NewCertPool()
	trust.AddCert(must(x509.ParseCertificate(der)))
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(private))}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return trust, cert, key
}

func TestTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	trust, cert, key := authority(t, folder)
	daemon := startDaemon(t, folder, rules, "", "--tls-cert", cert, "--tls-key", key)
	url := "rations://" + daemon.Address
	client := newClient(t, ration.Options{URL: url, TLS: &tls.Config{RootCAs: trust}})
	var mu sync.Mutex
	var left []int
	var group sync.WaitGroup
	for i := 0; i < 20; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			d := must(client.Take(background, "crowd", "99 per hour"))
			mu.Lock()
			defer mu.Unlock()
			left = append(left, int(d.Remaining))
		}()
	}
	group.Wait()
	sort.Ints(left)
	for i, each := range left {
		if each != 79+i {
			t.Fatal(left)
		}
	}
	if _, err := ration.New(ration.Options{URL: "ration://" + daemon.Address, TLS: &tls.Config{RootCAs: trust}}); err == nil {
		t.Error("TLS without rations:// is none")
	}
	stranger := newClient(t, ration.Options{URL: url})
	if d := must(stranger.Take(background, "ann", "9 per hour")); d.By != "policy" || !strings.Contains(d.Why, "certificate") {
		t.Errorf("%+v", d)
	}
	if err := daemon.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	wait(t, "a new connection", func() bool { return must(client.Take(background, "ann", "9 per hour")).By == "rationd" })
}

func TestAMistakeIsAnErrorAndStillADecision(t *testing.T) {
	t.Parallel()
	client := newClient(t, ration.Options{URL: "ration://" + rationdtest.FreeAddress(), Policy: "refuse"})
	d, err := client.Check(background, ration.Attributes{"User": "ann"})
	if err == nil || d == nil || d.Allowed || d.Why != err.Error() {
		t.Error(d, err)
	}
	if _, err := client.Report(background, "charge", -1); err == nil || !strings.Contains(err.Error(), "status") {
		t.Error(err)
	}
	if left, err := client.Pause(background, "key", ""); err != nil || left >= 0 { // a response without Retry-After
		t.Error(left, err)
	}
}

// logged is what the package log has written.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
	return len(line), nil
}

func (l *logged) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func TestWithoutACallbackEachTroubleIsLoggedOnce(t *testing.T) {
	daemon := startDaemon(t, t.TempDir(), rules, "")
	var out logged
	log.SetOutput(&out)
	defer log.SetOutput(os.Stderr)
	client := newClient(t, ration.Options{URL: daemon.URL(), Connections: 1})
	for i := 0; i < 3; i++ {
		if d := must(client.Take(background, "ann", "5 per fortnight")); d.By != "policy" {
			t.Fatalf("decided by %s", d.By)
		}
	}
	if lines := out.with("fortnight"); len(lines) != 1 || !strings.Contains(lines[0], "error_reply: ") {
		t.Fatalf("logged %q", lines)
	}
}

func TestWrongAddressesSayWhatIsWrong(t *testing.T) {
	for url, expected := range map[string]string{
		"127.0.0.1:6380":              `found "127.0.0.1:6380"`,
		"ration://127.0.0.1:65536":    `found "ration://127.0.0.1:65536"`,
		"ration://:secret@host:x":     `found "ration://host:x"`,
		"ration://secret@127.0.0.1":   "a token comes behind a colon: ration://:token@host",
		"ration://127.0.0.1:6380/0":   "ends with its port",
		"http://:secret@127.0.0.1:80": `found "http://127.0.0.1:80"`,
	} {
		if _, err := ration.New(ration.Options{URL: url}); err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
