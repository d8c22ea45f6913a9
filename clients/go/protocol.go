// SPDX-License-Identifier: Apache-2.0

// The bytes of RESP3: commands to bytes, bytes to replies. No I/O, no knowledge of limits.

package ration

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	mostBytes = 1 << 20 // of one reply
	mostItems = 4096    // of one array or map
	mostDepth = 8
	kinds     = "$:,#_*%>+-"
)

// badAnswer says what rationd would not send.
type badAnswer string

func (b badAnswer) Error() string { return string(b) }

func bad(format string, args ...any) error { return badAnswer(fmt.Sprintf(format, args...)) }

var errIncomplete = errors.New("the rest has not arrived")

// reply is one of RESP3. Its texts are parts of what was received.
type reply struct {
	kind   byte // $ : , # _ * % > or -; a + becomes a $, a null of any kind a _
	text   string
	number float64 // of : and ,; 1 for true
	items  []reply // of * and >; of % name, value, name, value, ...
}

func (r reply) String() string {
	text := fmt.Sprintf("%c%s", r.kind, r.text)
	switch r.kind {
	case ':', ',', '#':
		text += strconv.FormatFloat(r.number, 'g', -1, 64)
	case '*', '>', '%':
		text += fmt.Sprint(r.items)
	}
	return fmt.Sprintf("%.80q", text)
}

func encode(words ...string) []byte {
	size := 16
	for _, word := range words {
		size += len(word) + 16
	}
	out := appendLine(make([]byte, 0, size), '*', len(words))
	for _, word := range words {
		out = append(append(appendLine(out, '$', len(word)), word...), "\r\n"...)
	}
	return out
}

func appendLine(out []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(out, kind), int64(n), 10), "\r\n"...)
}

// reader makes replies of bytes that come in any pieces.
type reader struct{ rest string }

func (r *reader) feed(data []byte) ([]reply, error) {
	p := parser{data: r.rest + string(data)}
	var replies []reply
	for at := 0; at < len(p.data); at = p.at {
		one, err := p.next(0)
		if err == errIncomplete {
			p.at = at
			break
		}
		if err != nil {
			return nil, err
		}
		replies = append(replies, one)
	}
	r.rest = p.data[p.at:]
	if r.rest != "" && strings.IndexByte(kinds, r.rest[0]) < 0 {
		return nil, bad("not RESP3: %.40q; give the address of rationd's --resp", r.rest)
	}
	if len(r.rest) > mostBytes {
		return nil, bad("a reply of more than %d bytes", mostBytes)
	}
	return replies, nil
}

type parser struct {
	data string
	at   int
}

func (p *parser) next(depth int) (reply, error) {
	end := strings.Index(p.data[p.at:], "\r\n")
	if end < 0 {
		return reply{}, errIncomplete
	}
	line := p.data[p.at : p.at+end]
	p.at += end + 2
	if line == "" {
		return reply{}, bad("an empty line")
	}
	one := reply{kind: line[0], text: line[1:]}
	switch one.kind {
	case '+':
		one.kind = '$'
		return one, nil
	case '-':
		return one, nil
	case '$':
		return p.readText(one.text)
	case '*', '>', '%':
		return p.readItems(one.kind, one.text, depth+1)
	case ':', ',':
		return readNumber(one)
	}
	switch line {
	case "#t":
		return reply{kind: '#', number: 1}, nil
	case "#f":
		return reply{kind: '#'}, nil
	case "_":
		return reply{kind: '_'}, nil
	}
	return reply{}, bad("not RESP3: %.40q; give the address of rationd's --resp", line)
}

func (p *parser) readText(length string) (reply, error) {
	size, err := readCount(length, mostBytes)
	if err != nil || size < 0 {
		return reply{kind: '_'}, err
	}
	rest := p.data[p.at:]
	if len(rest) > size && rest[size] != '\r' || len(rest) > size+1 && rest[size+1] != '\n' {
		return reply{}, bad("a text that is not as long as it says")
	}
	if len(rest) < size+2 {
		return reply{}, errIncomplete
	}
	p.at += size + 2
	return reply{kind: '$', text: rest[:size]}, nil
}

func (p *parser) readItems(kind byte, length string, depth int) (reply, error) {
	count, err := readCount(length, mostItems)
	if err != nil || count < 0 {
		return reply{kind: '_'}, err
	}
	if depth > mostDepth {
		return reply{}, bad("a reply of more than %d levels", mostDepth)
	}
	if kind == '%' {
		count *= 2
	}
	if 3*count > len(p.data)-p.at { // the shortest reply has three bytes
		return reply{}, errIncomplete
	}
	items := make([]reply, count)
	for i := range items {
		if items[i], err = p.next(depth); err != nil {
			return reply{}, err
		}
		if kind == '%' && i%2 == 0 && items[i].kind != '$' {
			return reply{}, bad("the name in a map is no text: %v", items[i])
		}
	}
	return reply{kind: kind, items: items}, nil
}

// readCount reads a length: -1 for null.
func readCount(text string, most int) (int, error) {
	if text == "-1" {
		return -1, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || int(n) > most {
		return 0, bad("no length: %.40q; it would be 0 to %d", text, most)
	}
	return int(n), nil
}

// readNumber reads integers of up to 64 bits, and doubles that are finite.
func readNumber(one reply) (reply, error) {
	var err error
	if one.kind == ':' {
		var n int64
		n, err = strconv.ParseInt(one.text, 10, 64)
		one.number = float64(n)
	} else {
		one.number, err = strconv.ParseFloat(one.text, 64)
	}
	spelled := strings.Trim(one.text, "+-.0123456789eE") == "" // no inf, nan, 0x1p2
	if err != nil || !spelled || math.IsInf(one.number, 0) {
		return reply{}, bad("no number: %.40q", one.text)
	}
	one.text = ""
	return one, nil
}
