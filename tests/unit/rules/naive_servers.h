/* SPDX-License-Identifier: Apache-2.0 */
/* Simple models of how web servers read a path. Include after cmocka.h. */
#ifndef NAIVE_SERVERS_H
#define NAIVE_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define TEXT 512
#define SEGMENTS 128

struct text {
    char bytes[TEXT];
    size_t len;
};

static inline void add(struct text *t, char c)
{
    assert_true(t->len < TEXT);
    t->bytes[t->len++] = c;
}

static inline int digit(char c)
{
    const char *digits = "0123456789abcdef", *at = strchr(digits, c >= 'A' ? c | 0x20 : c);

    return c && at ? (int)(at - digits) : -1;
}

/* Decodes once. */
static inline struct text decode(struct text t)
{
    struct text out = {.len = 0};

    for (size_t i = 0; i < t.len; i++) {
        int high = t.bytes[i] == '%' && i + 2 < t.len ? digit(t.bytes[i + 1]) : -1;
        int low = high >= 0 ? digit(t.bytes[i + 2]) : -1;

        add(&out, low < 0 ? t.bytes[i] : (char)(high << 4 | low));
        i += low < 0 ? 0 : 2;
    }
    return out;
}

static inline struct text replace(struct text t, char from, char to)
{
    for (size_t i = 0; i < t.len; i++)
        if (t.bytes[i] == from)
            t.bytes[i] = to;
    return t;
}

static inline struct text cut(struct text t, char at)
{
    char *found = memchr(t.bytes, at, t.len);

    t.len = found ? (size_t)(found - t.bytes) : t.len;
    return t;
}

static inline struct text drop_parameters(struct text t)
{
    struct text out = {.len = 0};
    bool dropping = false;

    for (size_t i = 0; i < t.len; i++) {
        dropping = t.bytes[i] != '/' && (dropping || t.bytes[i] == ';');
        if (!dropping)
            add(&out, t.bytes[i]);
    }
    return out;
}

/* Segments that are not empty, with or without dots resolved, each decoded if that is
 * still to be done, spelt as readings are. */
static inline struct text spell(struct text t, bool dots, bool decoded)
{
    struct text segments[SEGMENTS], out = {.len = 0};
    size_t count = 0, begin = 0;

    for (size_t i = 0; i <= t.len; i++) {
        if (i < t.len && t.bytes[i] != '/')
            continue;
        struct text s = {.len = i - begin};

        memcpy(s.bytes, t.bytes + begin, s.len);
        begin = i + 1;
        s = decoded ? s : decode(s);
        if (dots && s.len == 2 && memcmp(s.bytes, "..", 2) == 0)
            count -= count > 0;
        else if (s.len > 0 && !(dots && s.len == 1 && s.bytes[0] == '.'))
            segments[count++] = s;
        assert_true(count < SEGMENTS);
    }
    for (size_t n = 0; n < count; n++) {
        add(&out, '/');
        for (size_t i = 0; i < segments[n].len; i++) {
            char c = segments[n].bytes[i];
            const char *code = c == '/'   ? "%2F"
                               : c == '%' ? "%25"
                               : c == '?' ? "%3F"
                               : c == '#' ? "%23"
                                          : NULL;

            for (; code && *code; code++)
                add(&out, *code);
            if (!code)
                add(&out, c);
        }
    }
    if (count == 0)
        add(&out, '/');
    return out;
}

/* Decodes, then splits, as WSGI has it. */
static inline struct text wsgi(struct text t)
{
    return spell(decode(t), false, true);
}

/* Splits, then decodes: routers that keep %2F in a parameter. */
static inline struct text router(struct text t)
{
    return spell(t, false, false);
}

/* Decodes, folds slashes, resolves dots: nginx, Go. */
static inline struct text cleaner(struct text t)
{
    return spell(decode(t), true, true);
}

/* Drops parameters, keeps %2F, resolves dots: servlets. */
static inline struct text servlet(struct text t)
{
    return spell(drop_parameters(t), true, false);
}

/* A backslash is a slash, escaped or not. */
static inline struct text windows(struct text t)
{
    return spell(replace(decode(t), '\\', '/'), true, true);
}

/* A proxy decodes, and an application once more. */
static inline struct text twice(struct text t)
{
    return spell(decode(decode(t)), true, true);
}

static inline struct text c_string(struct text t)
{
    return spell(cut(decode(t), '\0'), false, true);
}

/* A proxy that decodes in front of a servlet. */
static inline struct text decoded_servlet(struct text t)
{
    return spell(drop_parameters(decode(t)), true, true);
}

/* As browsers read a URL: `\` is `/`, //host is no path. */
static inline struct text browser(struct text t)
{
    size_t from = 0;

    t = replace(t, '\\', '/');
    if (t.len > 1 && t.bytes[1] == '/') {
        while (from < t.len && t.bytes[from] == '/')
            from++;
        while (from < t.len && t.bytes[from] != '/')
            from++;
    }
    memmove(t.bytes, t.bytes + from, t.len - from);
    t.len -= from;
    return spell(t, true, false);
}

static struct text (*const servers[])(struct text) = {
    wsgi, router, cleaner, servlet, windows, twice, c_string, decoded_servlet, browser};

#endif
