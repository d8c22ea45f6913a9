// SPDX-License-Identifier: Apache-2.0

// Replies in any pieces, and bytes that are none.

package ration

import (
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"
)

const everyKind = "*3\r\n$1\r\na\r\n$0\r\n\r\n$4\r\nx\r\ny\r\n%1\r\n+k\r\n,1.5\r\n>1\r\n:7\r\n#f\r\n_\r\n-ERR no\r\n$-1\r\n*-1\r\n:-12\r\n#t\r\n,-2e3\r\n"

func TestRepliesComeInAnyPieces(t *testing.T) {
	text := func(text string) reply { return reply{kind: '$', text: text} }
	null := reply{kind: '_'}
	want := []reply{{kind: '*', items: []reply{text("a"), text(""), text("x\r\ny")}},
		{kind: '%', items: []reply{text("k"), {kind: ',', number: 1.5}}}, {kind: '>', items: []reply{{kind: ':', number: 7}}},
		{kind: '#'}, null, {kind: '-', text: "ERR no"}, null, null, {kind: ':', number: -12}, {kind: '#', number: 1}, {kind: ',', number: -2000}}
	for _, size := range []int{1, 2, 7, 1000} {
		var in reader
		var found []reply
		for at := 0; at < len(everyKind); at += size {
			end := at + size
			if end > len(everyKind) {
				end = len(everyKind)
			}
			some, err := in.feed([]byte(everyKind[at:end]))
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, some...)
		}
		if !reflect.DeepEqual(found, want) {
			t.Errorf("in pieces of %d: %v", size, found)
		}
	}
}

func TestACommandIsReadAsItWasWritten(t *testing.T) {
	words := []string{"RATION.TAKE", "", "zwölf \r\n$3\r\n日本", strings.Repeat("x", 9000)}
	var in reader
	found, err := in.feed(encode(words...))
	if err != nil || len(found) != 1 || len(found[0].items) != len(words) {
		t.Fatal(found, err)
	}
	for i, word := range words {
		if found[0].items[i].text != word {
			t.Errorf("%.20q is not %.20q", found[0].items[i].text, word)
		}
	}
}

func TestNonsenseIsABadAnswer(t *testing.T) {
	for _, data := range []string{"HTTP/1.1\r\n", "x", "\r\n", "\x00", "$3\r\nabcd\r\n", "$3\r\nabc\rx", "*5000\r\n", "%4097\r\n", ":1_0\r\n", ":\r\n",
		":99999999999999999999\r\n", ",inf\r\n", ",nan\r\n", ",0x1p2\r\n", ",1e999\r\n", "#x\r\n", "_x\r\n", "$-2\r\n", "$+3\r\nabc\r\n", "%1\r\n:1\r\n:2\r\n",
		strings.Repeat("*1\r\n", 20), "$2000000\r\n", "+" + strings.Repeat("x", 1_200_000)} {
		var in reader
		if found, err := in.feed([]byte(data)); !isBad(err) {
			t.Errorf("%.40q is read as %v, %v", data, found, err)
		}
	}
}

func isBad(err error) bool {
	var answer badAnswer
	return errors.As(err, &answer)
}

// Bytes that look like replies, changed at random, in random pieces: a bad answer at worst, and never a decision that is
// none.
func TestRandomBytesAreRepliesOrBadAnswers(t *testing.T) {
	seeds := []string{everyKind, sixReply, string(encode("RATION.CHECK", "ip", "192.0.2.7")), "*1\r\n*1\r\n*1\r\n%1\r\n$1\r\nx\r\n_\r\n"}
	random := rand.New(rand.NewSource(7))
	decisions, answers := 0, 0
	for i := 0; i < 30_000; i++ {
		data := []byte(seeds[random.Intn(len(seeds))])
		for n := random.Intn(4); n > 0; n-- {
			at := random.Intn(len(data))
			switch random.Intn(4) {
			case 0:
				data[at] = byte(random.Intn(256))
			case 1:
				data[at] = "$:,#_*%>+-\r\n0123456789"[random.Intn(22)]
			case 2:
				data = append(data[:at], data[at+1:]...)
			default:
				data = append(data[:at:at], append([]byte(fmt.Sprint(random.Intn(5000))), data[at:]...)...)
			}
		}
		var in reader
		for len(data) > 0 {
			n := 1 + random.Intn(len(data))
			found, err := in.feed(data[:n])
			data = data[n:]
			if err != nil && !isBad(err) {
				t.Fatal(err)
			}
			if err != nil {
				answers++
				break
			}
			for _, each := range found {
				if d, err := readDecision(each); err == nil {
					decisions++
					d.Headers()
					d.Body("application/problem+json")
				} else if !isBad(err) {
					t.Fatal(err)
				}
			}
		}
	}
	if decisions < 1000 || answers < 1000 {
		t.Errorf("only %d decisions and %d bad answers: the changes are not what they should be", decisions, answers)
	}
}
