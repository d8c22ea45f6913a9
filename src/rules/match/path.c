/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the readings of a path, since servers read some bytes differently. Each such difference is
 * a *kind*. A set of kinds makes a reading: the kinds in the set are decided in the way that makes
 * more paths equal. One pass finds the kinds of a path, then each of their subsets is written out,
 * the full set first.
 *
 * The order matters for keys: if a server's reading of a path is read again with the full set, the
 * result is the first reading. So all spellings that a server reads as one path have one key. This
 * does not hold where one kind changes the meaning of another, such as `..` after a slash that may
 * be none. Such paths are unreadable; no client sends them by mistake.
 */
#include "rules/match/path.h"

#include "base/hints.h"
#include "base/utf8.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* How the full set reads each kind; the other way is to leave the bytes as they are. */
enum {
    SLASH = 1,           /* %2F separates segments */
    BACKSLASH = 2,       /* \ does */
    BACKSLASH_CODE = 4,  /* %5C does */
    TWICE = 8,           /* what is an escape again once decoded is decoded again */
    PARAMETER = 16,      /* ;v=1 is dropped, up to the next segment */
    PARAMETER_CODE = 32, /* %3Bv=1 is */
    BAD_UTF8 = 64,       /* overlong forms are decoded, the rest is dropped */
    NUL = 128,           /* ends the path */
    FRAGMENT = 256,      /* # ends the path */
    AUTHORITY = 512,     /* //host/path: the first segment is no part of the path */
    DOTS = 1024,         /* . and .. are resolved */
    EXTENSION = 2048,    /* the last segment ends before its first dot */
};
#define KINDS_MAX 3

struct writer {
    const struct rn_path_settings *settings;
    unsigned kinds;     /* the set of this reading */
    unsigned met;       /* the kinds found in the path */
    bool bad;           /* unreadable, or no room */
    bool ended;         /* by NUL or # */
    bool in_parameters; /* nothing is written until the next segment */
    bool after_gap;     /* the segment before was empty */
    char *out;
    size_t len, room, slash; /* out[slash] is the one before the segment being written */
    size_t again;            /* out[again - 1] is the last that was decoded twice; 0: none */
    char wide[6];            /* a character of UTF-8 that has begun */
    unsigned wide_len, wide_want;
};

static void put(struct writer *w, const char *text, size_t len)
{
    if (w->in_parameters)
        return;
    if (w->room - w->len < len) {
        w->bad = true;
        return;
    }
    memcpy(w->out + w->len, text, len);
    w->len += len;
}

/* --- segments -------------------------------------------------------------------------- */

static void end_segment(struct writer *w)
{
    struct rn_slice segment = {w->out + w->slash + 1, w->len - w->slash - 1};
    bool up = rn_slice_equal(segment, RN_SLICE(".."));
    bool dots = up || rn_slice_equal(segment, RN_SLICE("."));

    w->in_parameters = false;
    if (segment.len == 0) {
        w->after_gap = true;
        return;
    }
    w->met |= dots ? DOTS : 0;
    if (!dots || !(w->kinds & DOTS)) {
        w->after_gap = false;
        put(w, "/", 1);
        w->slash = w->bad ? w->slash : w->len - 1;
        return;
    }
    /* RFC 3986, 5.2.4. Servers drop empty segments before or after this, which makes a difference
     * where .. follows one. */
    w->bad |= up && w->after_gap;
    if (up && w->slash > 0)
        do
            w->slash--;
        while (w->out[w->slash] != '/');
    w->len = w->slash + 1;
}

/* --- characters ------------------------------------------------------------------------ */

/* Notes a kind; returns whether this reading decides it as the full set does. */
static bool meets(struct writer *w, unsigned kind)
{
    w->met |= kind;
    return (w->kinds & kind) != 0;
}

/* One character below 0x80. `escaped`: it was written as an escape. */
static void take_char(struct writer *w, char c, bool escaped)
{
    enum rn_path_parameters parameters = w->settings->parameters;
    bool separates = false;

    /* Where the parameters end depends on what is done first. */
    w->bad |= w->in_parameters &&
              (c == '\\' || c == '%' || c == '#' || c == '\0' || (c == '/' && escaped));
    if (c == '/')
        separates = !escaped || meets(w, SLASH);
    else if (c == '\\')
        separates = meets(w, escaped ? BACKSLASH_CODE : BACKSLASH);
    if (separates)
        end_segment(w);
    else if (c == '/')
        put(w, "%2F", 3);
    else if (c == '%')
        put(w, "%25", 3);
    else if (c == '?')
        put(w, "%3F", 3);
    else if (c == ';' &&
             ((parameters == RN_PARAMETERS_IGNORE && !escaped) ||
              (parameters != RN_PARAMETERS_KEEP && meets(w, escaped ? PARAMETER_CODE : PARAMETER))))
        w->in_parameters = true;
    else if (c == ';' && parameters == RN_PARAMETERS_IGNORE)
        put(w, "%3B", 3);
    else if ((c == '\0' && meets(w, NUL)) || (c == '#' && !escaped && meets(w, FRAGMENT)))
        w->ended = true;
    else if (c == '#')
        put(w, "%23", 3);
    else if (w->settings->ignore_case && c >= 'A' && c <= 'Z')
        put(w, &(char){(char)(c | 0x20)}, 1);
    else
        put(w, &c, 1);
}

/* --- UTF-8 ----------------------------------------------------------------------------- */

static void take_byte(struct writer *w, char c, bool escaped);

/* The bytes so far are a whole character, or cannot become one. */
static void end_wide(struct writer *w)
{
    unsigned len = w->wide_len;
    uint32_t point;

    w->wide_len = 0;
    if (len == 0)
        return;
    if (rn_utf8_decode(w->wide, len, &point) == len || !meets(w, BAD_UTF8)) {
        put(w, w->wide, len);
        return;
    }
    w->bad |= w->in_parameters;
    point = (unsigned char)w->wide[0] & (0x7FU >> len);
    for (unsigned i = 1; i < len; i++)
        point = point << 6 | ((unsigned char)w->wide[i] & 0x3FU);
    if (len > 1 && len == w->wide_want && point < 0x80)
        take_byte(w, (char)point, false);
}

/* --- bytes ----------------------------------------------------------------------------- */

/* Text that is escaped three times is unreadable. */
static void take_byte(struct writer *w, char c, bool escaped)
{
    bool again = false;

    if ((unsigned char)c < 0x80)
        end_wide(w);
    for (; !w->in_parameters && w->len >= w->slash + 5 && hex_value(c) >= 0; w->len -= 4) {
        const char *at = w->out + w->len - 4; /* does c complete an escape whose % was escaped? */

        if (memcmp(at, "%25", 3) != 0 || hex_value(at[3]) < 0 || !meets(w, TWICE))
            break;
        w->bad |= again || w->again > w->len - 4;
        c = (char)(hex_value(at[3]) << 4 | hex_value(c));
        again = escaped = true;
    }
    if ((unsigned char)c >= 0x80) {
        if ((unsigned char)c >= 0xC0 || w->wide_len == 0) {
            end_wide(w);
            w->wide_want = (unsigned)__builtin_clz(~((unsigned)(unsigned char)c << 24));
            if (w->wide_want > sizeof w->wide) /* as many bytes as there are ones in front */
                w->wide_want = 1;
        }
        w->wide[w->wide_len++] = c;
        if (w->wide_len == w->wide_want)
            end_wide(w);
        return;
    }
    if (!w->ended)
        take_char(w, c, escaped);
    if (again)
        w->again = w->len;
}

/* --- a whole path ---------------------------------------------------------------------- */

/* Data NULL: unreadable, or no room. */
static struct rn_slice write_reading(struct writer *w, struct rn_slice path)
{
    size_t i = path.len > 0 && path.data[0] == '/';

    w->len = w->slash = 0;
    put(w, "/", 1);
    while (i < path.len && !w->ended && !w->bad) {
        const char *at = path.data + i;
        size_t left = path.len - i;
        bool is_escape = at[0] == '%' && left > 2 && hex_value(at[1]) >= 0 && hex_value(at[2]) >= 0;

        /* IIS decodes %u006c, to one of several code pages. */
        w->bad |= left >= 6 && at[0] == '%' && (at[1] | 0x20) == 'u' && hex_value(at[2]) >= 0 &&
                  hex_value(at[3]) >= 0 && hex_value(at[4]) >= 0 && hex_value(at[5]) >= 0;
        if (is_escape)
            take_byte(w, (char)(hex_value(at[1]) << 4 | hex_value(at[2])), true);
        else
            take_byte(w, at[0], false);
        i += is_escape ? 3 : 1;
    }
    end_wide(w);
    end_segment(w);
    if (w->len > 1 && !w->bad) {
        w->len--; /* the slash at the end */
        const char *name = (const char *)memrchr(w->out, '/', w->len) + 1;
        const char *dot = memchr(name, '.', w->len - (size_t)(name - w->out));

        if (w->settings->ignore_extension && dot && dot != name && meets(w, EXTENSION))
            w->len = (size_t)(dot - w->out);
    }
    return w->bad ? (struct rn_slice){NULL, 0} : (struct rn_slice){w->out, w->len};
}

static bool is_slash(char c)
{
    return c == '/' || c == '\\';
}

/* Sets *path to the path of http://host/path; any other target is the path itself. False:
 * http:/path and http:\\host, on which servers do not agree. */
static bool drop_scheme(struct rn_slice target, struct rn_slice *path)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
    size_t len = 0;

    while (len < target.len && target.data[len] && strchr(letters, target.data[len]))
        len++;
    *path = target;
    if (len == 0 || target.len - len < 2 || target.data[len] != ':' ||
        !is_slash(target.data[len + 1]))
        return true;
    if (target.len - len < 3 || memcmp(target.data + len, "://", 3) != 0)
        return false;
    len += 3;
    while (len < target.len && !is_slash(target.data[len]) && target.data[len] != '#')
        len++;
    *path = (struct rn_slice){target.data + len, target.len - len};
    return true;
}

/* --- all readings ---------------------------------------------------------------------- */

/* Adds a reading, unless it is known. False: unreadable, also if this reading alone has a kind,
 * such as dots in overlong UTF-8. */
static bool add_reading(struct rn_path_readings *r, struct writer w, struct rn_slice path,
                        unsigned all, size_t *used)
{
    struct rn_slice text;

    w.out = r->room + *used;
    w.room = sizeof r->room - *used;
    text = write_reading(&w, path);
    if (!text.data || w.met & ~all)
        return false;
    for (uint32_t i = 0; i < r->count; i++)
        if (rn_slice_equal(r->text[i], text))
            return true;
    r->text[r->count++] = text;
    *used += text.len;
    return true;
}

/* Finds the kinds of a path, with one reading of as few segments as possible and one of as many.
 * False: unreadable, also where kinds cannot be decided independently of each other. */
static bool find_kinds(struct rn_path_readings *r, struct writer w, struct rn_slice path,
                       size_t authority_len, unsigned *kinds)
{
    static const unsigned sets[] = {TWICE, TWICE | SLASH | BACKSLASH | BACKSLASH_CODE};

    *kinds = authority_len != 0 ? AUTHORITY : 0;
    for (size_t i = 0; i < RN_COUNT(sets); i++) {
        struct writer one = w;

        one.kinds = sets[i];
        one.out = r->room;
        one.room = sizeof r->room;
        if (!write_reading(&one, path).data)
            return false;
        *kinds |= one.met;
    }
    if (__builtin_popcount(*kinds) > KINDS_MAX)
        return false;
    if (*kinds & DOTS && *kinds & ~(unsigned)(DOTS | EXTENSION))
        return false;
    if (*kinds & TWICE && *kinds & BAD_UTF8) /* what is dropped may stand inside an escape */
        return false;
    for (size_t i = 0; i < authority_len; i++)
        if (path.data[i] && strchr("%;#", path.data[i]))
            return false;
    return true;
}

RN_ASIDE void rn_path_read_all(struct rn_slice target, const struct rn_path_settings *settings,
                               struct rn_path_readings *readings)
{
    struct rn_slice path, after;
    struct writer w = {.settings = settings};
    size_t used = 0, host = 0; /* `host` bytes of the path are //host */
    unsigned kinds = 0;
    bool good = drop_scheme(rn_path_cut_query(target), &path);

    if (path.len >= 2 && path.data[0] == '/' && is_slash(path.data[1])) {
        while (host < path.len && is_slash(path.data[host]))
            host++;
        while (host < path.len && !is_slash(path.data[host]))
            host++;
    }
    after = (struct rn_slice){path.data + host, path.len - host};
    good = good && find_kinds(readings, w, path, host, &kinds);
    readings->count = 0;
    readings->unreadable = false;
    for (w.kinds = kinds; good; w.kinds = (w.kinds - 1) & kinds) {
        good = add_reading(readings, w, w.kinds & AUTHORITY ? after : path, kinds, &used);
        if (w.kinds == 0)
            break;
    }
    if (!good) {
        readings->unreadable = true;
        readings->count = 1;
        readings->text[0] = RN_SLICE("%");
    }
}

struct rn_slice rn_path_spell(struct rn_slice text, const struct rn_path_settings *settings,
                              char *out, size_t room)
{
    struct rn_path_settings as_written = {.ignore_case = settings->ignore_case,
                                          .parameters = settings->parameters};
    struct writer w = {.settings = &as_written, .out = out, .room = room};

    if (as_written.parameters == RN_PARAMETERS_EITHER)
        as_written.parameters = RN_PARAMETERS_KEEP;
    return write_reading(&w, text);
}
