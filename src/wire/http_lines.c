/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request line and a header line may be (RFC 9112 §3 and §5), and the
 * headers that decide how the request is framed.
 */
#include "wire/http_parts.h"

#define LENGTH_MAX (UINT64_C(1) << 53) /* exact in every language a peer is written in */

enum {
    TOKEN = 1,  /* of a header's name */
    TARGET = 2, /* of a target: visible ASCII but # */
    HOST = 4,   /* of a host's name or IPv4 address */
};

#define T TOKEN | TARGET
#define H TOKEN | TARGET | HOST
#define V TARGET
static const uint8_t class_of[256] = {
    ['!'] = T, ['"'] = V, ['#'] = TOKEN, ['$'] = T,  ['%'] = T, ['&'] = T, ['\''] = T, ['('] = V,
    [')'] = V, ['*'] = T, ['+'] = T,     [','] = V,  ['-'] = H, ['.'] = H, ['/'] = V,  ['0'] = H,
    ['1'] = H, ['2'] = H, ['3'] = H,     ['4'] = H,  ['5'] = H, ['6'] = H, ['7'] = H,  ['8'] = H,
    ['9'] = H, [':'] = V, [';'] = V,     ['<'] = V,  ['='] = V, ['>'] = V, ['?'] = V,  ['@'] = V,
    ['A'] = H, ['B'] = H, ['C'] = H,     ['D'] = H,  ['E'] = H, ['F'] = H, ['G'] = H,  ['H'] = H,
    ['I'] = H, ['J'] = H, ['K'] = H,     ['L'] = H,  ['M'] = H, ['N'] = H, ['O'] = H,  ['P'] = H,
    ['Q'] = H, ['R'] = H, ['S'] = H,     ['T'] = H,  ['U'] = H, ['V'] = H, ['W'] = H,  ['X'] = H,
    ['Y'] = H, ['Z'] = H, ['['] = V,     ['\\'] = V, [']'] = V, ['^'] = T, ['_'] = H,  ['`'] = T,
    ['a'] = H, ['b'] = H, ['c'] = H,     ['d'] = H,  ['e'] = H, ['f'] = H, ['g'] = H,  ['h'] = H,
    ['i'] = H, ['j'] = H, ['k'] = H,     ['l'] = H,  ['m'] = H, ['n'] = H, ['o'] = H,  ['p'] = H,
    ['q'] = H, ['r'] = H, ['s'] = H,     ['t'] = H,  ['u'] = H, ['v'] = H, ['w'] = H,  ['x'] = H,
    ['y'] = H, ['z'] = H, ['{'] = V,     ['|'] = T,  ['}'] = V, ['~'] = H,
};
#undef T
#undef H
#undef V

/* Behind the bytes of that class at p. The CR behind the line is of no class. */
static inline const char *pass(const char *p, unsigned class)
{
    for (;; p += 4) {
        if (!(class_of[(unsigned char)p[0]] & class))
            return p;
        if (!(class_of[(unsigned char)p[1]] & class))
            return p + 1;
        if (!(class_of[(unsigned char)p[2]] & class))
            return p + 2;
        if (!(class_of[(unsigned char)p[3]] & class))
            return p + 3;
    }
}

/* Eight bytes or four, with the bit set that makes a letter small. */
static inline uint64_t small8(const char *p)
{
    uint64_t bytes;

    memcpy(&bytes, p, 8);
    return bytes | 0x2020202020202020;
}

static inline uint32_t small4(const char *p)
{
    uint32_t bytes;

    memcpy(&bytes, p, 4);
    return bytes | 0x20202020;
}

/* Lower-case letters, - and such in `word`, 4 to 24 of them; any case in the text. It
 * has no control bytes, so that setting that bit makes nothing else equal. Where the
 * word is no multiple of what is compared at once, the end overlaps. */
static inline bool is_word(struct rn_slice text, const char *word, size_t len)
{
    const char *p = text.data;

    if (text.len != len)
        return false;
    if (len < 8)
        return small4(p) == small4(word) && small4(p + len - 4) == small4(word + len - 4);
    if (len > 16 && small8(p + 8) != small8(word + 8))
        return false;
    return small8(p) == small8(word) && small8(p + len - 8) == small8(word + len - 8);
}

#define IS_WORD(text, literal) is_word(text, literal, sizeof(literal) - 1)

static struct rn_slice between(const char *start, const char *end)
{
    return (struct rn_slice){start, (size_t)(end - start)};
}

/* --- host ------------------------------------------------------------------ */

/* [2001:db8::1]: what is within is for whoever needs an address to check. */
static const char *pass_literal(const char *p, const char *end)
{
    const char *start = ++p;

    while (p < end && (class_of[(unsigned char)*p] & HOST || *p == ':'))
        p++;
    return p < end && *p == ']' && p > start ? p + 1 : NULL;
}

/* A name or address and perhaps a port, nothing else (RFC 9110 §7.2). */
static bool is_host(struct rn_slice text)
{
    const char *p = text.data, *end = p + text.len, *port;

    if (text.len == 0)
        return false;
    p = *p == '[' ? pass_literal(p, end) : pass(p, HOST);
    if (!p || p == text.data)
        return false;
    if (p == end)
        return true;
    if (*p != ':')
        return false;
    for (port = ++p; p < end && *p >= '0' && *p <= '9'; p++)
        ;
    return p == end && p - port >= 1 && p - port <= 5;
}

/* --- request line ---------------------------------------------------------- */

static void split_query(struct rn_http_request *request, struct rn_slice text)
{
    const char *mark = text.len > 0 ? memchr(text.data, '?', text.len) : NULL;

    request->path = text;
    request->query = (struct rn_slice){0};
    if (mark) {
        request->path = between(text.data, mark);
        request->query = between(mark + 1, text.data + text.len);
    }
}

/* http://host:port/path?query: the host is the one of the target, whatever the Host
 * header says (RFC 9112 §3.2.2). */
static enum rn_parse read_absolute(struct rn_http_parser *parser, struct rn_http_request *request,
                                   struct rn_http_error *error)
{
    struct rn_slice target = request->target;
    const char *end = target.data + target.len, *p;

    if (target.len > 7 && is_word((struct rn_slice){target.data, 7}, "http://", 7))
        p = target.data + 7;
    else if (target.len > 8 && is_word((struct rn_slice){target.data, 8}, "https://", 8))
        p = target.data + 8;
    else
        return rn_http_refuse(error, 400, "the target must begin with / or with http://");
    request->host.data = p;
    while (p < end && *p != '/' && *p != '?')
        p++;
    request->host.len = (size_t)(p - request->host.data);
    if (!is_host(request->host))
        return rn_http_refuse(error, 400, "the target has no host, or a bad one");
    parser->facts |= RN_HTTP_IS_ABSOLUTE;
    split_query(request, between(p, end));
    if (request->path.len == 0)
        request->path = RN_SLICE("/");
    return RN_PARSE_DONE;
}

/* Those of RFC 9110 and PATCH; llhttp knows the others. */
static bool is_common(struct rn_slice method)
{
    switch (method.len) {
    case 3:
        return memcmp(method.data, "GET", 3) == 0 || memcmp(method.data, "PUT", 3) == 0;
    case 4:
        return memcmp(method.data, "POST", 4) == 0 || memcmp(method.data, "HEAD", 4) == 0;
    case 5:
        return memcmp(method.data, "PATCH", 5) == 0 || memcmp(method.data, "TRACE", 5) == 0;
    case 6:
        return memcmp(method.data, "DELETE", 6) == 0;
    case 7:
        return memcmp(method.data, "OPTIONS", 7) == 0;
    }
    return false;
}

static enum rn_parse read_target(struct rn_http_parser *parser, struct rn_http_request *request,
                                 struct rn_http_error *error)
{
    struct rn_slice target = request->target;

    if (target.len > RN_HTTP_TARGET_MAX)
        return rn_http_refuse(error, 414, "the target is longer than 8192 bytes");
    if (!is_common(request->method)) {
        if (rn_slice_is(request->method, "CONNECT"))
            return rn_http_refuse(error, 501, "CONNECT is not served");
        parser->facts |= RN_HTTP_IS_RARE;
    }
    if (target.data[0] == '/') {
        split_query(request, target);
        return RN_PARSE_DONE;
    }
    if (target.len != 1 || target.data[0] != '*')
        return read_absolute(parser, request, error);
    if (!rn_slice_is(request->method, "OPTIONS"))
        return rn_http_refuse(error, 400, "the target * is for OPTIONS only");
    split_query(request, target);
    return RN_PARSE_DONE;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static enum rn_parse read_version(struct rn_http_parser *parser, struct rn_slice text,
                                  struct rn_http_error *error)
{
    if (text.len != 8 || memcmp(text.data, "HTTP/", 5) != 0 || text.data[6] != '.' ||
        !is_digit(text.data[5]) || !is_digit(text.data[7]))
        return rn_http_refuse(error, 400, "the request line must end in a space and HTTP/1.1");
    if (text.data[5] != '1' || text.data[7] > '1')
        return rn_http_refuse(error, 505, "only HTTP/1.1 and HTTP/1.0 are served");
    parser->minor = (uint8_t)(text.data[7] - '0');
    return RN_PARSE_DONE;
}

/* What stopped the target. */
static enum rn_parse refuse_target(const char *p, const char *end, struct rn_http_error *error)
{
    if (p < end && *p == '#')
        return rn_http_refuse(error, 400, "the target has a fragment (#)");
    if (p < end && *p != ' ')
        return rn_http_refuse(error, 400, "a byte in the target is not visible ASCII: use %XX");
    return rn_http_refuse(error, 400, "the request line must be METHOD TARGET HTTP/1.1");
}

enum rn_parse rn_http_request_line(struct rn_http_parser *parser, struct rn_slice line,
                                   struct rn_http_request *request, struct rn_http_error *error)
{
    const char *p = line.data, *end = p + line.len, *target;

    if (line.len == 0)
        return rn_http_refuse(error, 400, "an empty line where a request must begin");
    while (p < end && ((*p >= 'A' && *p <= 'Z') || *p == '-'))
        p++;
    if (p == end || *p != ' ' || p == line.data)
        return rn_http_refuse(error, 400,
                              "the request line must begin with a method in capitals and a space");
    request->method = between(line.data, p);
    target = ++p;
    p = pass(p, TARGET);
    if (p == end || *p != ' ' || p == target)
        return refuse_target(p, end, error);
    request->target = between(target, p);
    if (read_version(parser, between(p + 1, end), error) == RN_PARSE_BAD)
        return RN_PARSE_BAD;
    return read_target(parser, request, error);
}

/* --- headers --------------------------------------------------------------- */

static enum rn_parse read_host(struct rn_http_parser *parser, struct rn_slice value,
                               struct rn_http_request *request, struct rn_http_error *error)
{
    if (parser->facts & RN_HTTP_HAS_HOST)
        return rn_http_refuse(error, 400, "more than one Host");
    if (!is_host(value))
        return rn_http_refuse(error, 400, "Host must be a name or address, and perhaps a port");
    parser->facts |= RN_HTTP_HAS_HOST;
    if (!(parser->facts & RN_HTTP_IS_ABSOLUTE))
        request->host = value;
    return RN_PARSE_DONE;
}

static enum rn_parse read_length(struct rn_http_parser *parser, struct rn_slice value,
                                 struct rn_http_error *error)
{
    uint64_t n = 0;

    if (parser->facts & RN_HTTP_HAS_LENGTH)
        return rn_http_refuse(error, 400, "more than one Content-Length");
    for (size_t i = 0; i < value.len && n <= LENGTH_MAX; i++) {
        if (!is_digit(value.data[i]))
            return rn_http_refuse(error, 400, "Content-Length must be digits");
        n = n * 10 + (uint64_t)(value.data[i] - '0');
    }
    if (value.len == 0 || (value.len > 1 && value.data[0] == '0'))
        return rn_http_refuse(error, 400, "Content-Length must be digits, the first of them not 0");
    if (n > LENGTH_MAX)
        return rn_http_refuse(error, 400, "Content-Length is beyond 2^53");
    parser->facts |= RN_HTTP_HAS_LENGTH;
    parser->body_bytes = n;
    return RN_PARSE_DONE;
}

static enum rn_parse read_coding(struct rn_http_parser *parser, struct rn_slice value,
                                 struct rn_http_error *error)
{
    if (parser->chunked)
        return rn_http_refuse(error, 400, "more than one Transfer-Encoding");
    if (!rn_slice_equal(value, RN_SLICE("chunked")))
        return rn_http_refuse(error, 501, "Transfer-Encoding must be chunked and nothing else");
    if (parser->minor == 0)
        return rn_http_refuse(error, 400, "Transfer-Encoding in HTTP/1.0");
    parser->chunked = true;
    return RN_PARSE_DONE;
}

static enum rn_parse read_expect(struct rn_http_parser *parser, struct rn_slice value,
                                 struct rn_http_error *error)
{
    if (!IS_WORD(value, "100-continue"))
        return rn_http_refuse(error, 417, "Expect can be 100-continue only");
    if (parser->minor == 1) /* RFC 9110 §10.1.1: ignored in HTTP/1.0 */
        parser->facts |= RN_HTTP_SAYS_EXPECT;
    return RN_PARSE_DONE;
}

static inline struct rn_slice trim(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (p < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return between(p, end);
}

/* A list of words; others than these are for proxies. */
static void read_connection(struct rn_http_parser *parser, struct rn_slice value)
{
    const char *p = value.data, *end = p + value.len;

    while (p < end) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        struct rn_slice word = trim(p, comma ? comma : end);

        if (IS_WORD(word, "close"))
            parser->facts |= RN_HTTP_SAYS_CLOSE;
        else if (IS_WORD(word, "keep-alive"))
            parser->facts |= RN_HTTP_SAYS_KEEP_ALIVE;
        p = comma ? comma + 1 : end;
    }
}

/* Those that say how to read the rest; all others are the caller's. */
static enum rn_parse heed(struct rn_http_parser *parser, const struct rn_http_header *header,
                          struct rn_http_request *request, struct rn_http_error *error)
{
    struct rn_slice name = header->name;

    switch (name.len) {
    case 4:
        if (IS_WORD(name, "host"))
            return read_host(parser, header->value, request, error);
        break;
    case 6:
        if (IS_WORD(name, "expect"))
            return read_expect(parser, header->value, error);
        break;
    case 10:
        if (IS_WORD(name, "connection"))
            read_connection(parser, header->value);
        break;
    case 14:
        if (IS_WORD(name, "content-length"))
            return read_length(parser, header->value, error);
        break;
    case 17:
        if (IS_WORD(name, "transfer-encoding"))
            return read_coding(parser, header->value, error);
        break;
    }
    return RN_PARSE_DONE;
}

/* What stopped the name. */
static enum rn_parse refuse_name(struct rn_slice line, const char *p, struct rn_http_error *error)
{
    const char *end = line.data + line.len;

    if (p == end)
        return rn_http_refuse(error, 400, "a header line without a colon");
    if (p == line.data && (*p == ' ' || *p == '\t'))
        return rn_http_refuse(error, 400, "a header line begins with white space");
    if (p == line.data && *p == ':')
        return rn_http_refuse(error, 400, "a header without a name");
    if (*p == ' ' || *p == '\t')
        return rn_http_refuse(error, 400, "white space in a header's name, or before its colon");
    return rn_http_refuse(error, 400, "a byte that no header's name may have");
}

enum rn_parse rn_http_header_line(struct rn_http_parser *parser, struct rn_slice line,
                                  struct rn_http_request *request, struct rn_http_error *error)
{
    const char *end = line.data + line.len, *p = pass(line.data, TOKEN);
    struct rn_http_header *header;

    if (p == end || *p != ':' || p == line.data)
        return refuse_name(line, p, error);
    if (parser->header_count == RN_HTTP_HEADERS_MAX)
        return rn_http_refuse(error, 431, "more than 100 headers");
    header = &request->headers[parser->header_count++];
    header->name = between(line.data, p);
    header->value = trim(p + 1, end);
    return heed(parser, header, request, error);
}
