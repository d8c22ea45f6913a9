/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A path is read byte by byte. Each matter of opinion is a *kind*; a set of
 * kinds says which of them are decided the way that makes more paths equal, and
 * so makes one reading. One pass finds the kinds of a path, then each of their
 * subsets is written out, the full set first.
 *
 * That the full set comes first matters for keys: what any server takes the path
 * for, read once more with the full set, is the first reading. So all spellings
 * that a server takes for one path have one key. It does not hold where what one
 * kind decides changes what another one means: `..` behind a slash that may be
 * none. Such paths are unreadable; no client sends them by mistake.
 */
#include "rules/match/path.h"

#include "base/hints.h"
#include "base/utf8.h"

/* How the full set reads it; the other way is to leave it where it stands. */
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
    unsigned kinds;     /* of this reading */
    unsigned met;       /* there were */
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

static int hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

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

/* RFC 3986, 5.2.4. To drop empty segments before or after that makes a difference
 * where .. follows one: servers do either. */
static void resolve_dots(struct writer *w, bool up)
{
    w->len = w->slash + 1;
    if (!up)
        return;
    w->bad |= w->after_gap;
    if (w->slash == 0)
        return;
    do
        w->slash--;
    while (w->out[w->slash] != '/');
    w->len = w->slash + 1;
}

static void end_segment(struct writer *w)
{
    struct rn_slice segment = {w->out + w->slash + 1, w->len - w->slash - 1};
    bool up = rn_slice_equal(segment, RN_SLICE(".."));

    w->in_parameters = false;
    if (segment.len == 0) {
        w->after_gap = true;
        return;
    }
    if (up || rn_slice_equal(segment, RN_SLICE("."))) {
        w->met |= DOTS;
        if (w->kinds & DOTS) {
            resolve_dots(w, up);
            return;
        }
    }
    w->after_gap = false;
    put(w, "/", 1);
    w->slash = w->bad ? w->slash : w->len - 1;
}

/* --- characters ------------------------------------------------------------------------ */

/* Whether this reading takes what it has met the full set's way. */
static bool meets(struct writer *w, unsigned kind)
{
    w->met |= kind;
    return (w->kinds & kind) != 0;
}

static void take_semicolon(struct writer *w, bool escaped)
{
    enum rn_path_parameters parameters = w->settings->parameters;
    bool dropped = parameters == RN_PARAMETERS_IGNORE && !escaped;

    if (!dropped && parameters != RN_PARAMETERS_KEEP)
        dropped = meets(w, escaped ? PARAMETER_CODE : PARAMETER);
    if (!dropped)
        put(w, parameters == RN_PARAMETERS_IGNORE ? "%3B" : ";",
            parameters == RN_PARAMETERS_IGNORE ? 3 : 1);
    w->in_parameters |= dropped;
}

/* One character below 0x80. `escaped`: it was not there as itself. */
static void take_char(struct writer *w, char c, bool escaped)
{
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
    else if (c == ';')
        take_semicolon(w, escaped);
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

static void take_wide(struct writer *w, char c)
{
    unsigned char byte = (unsigned char)c;

    if (byte >= 0xC0 || w->wide_len == 0) {
        end_wide(w);
        w->wide_want = (unsigned)__builtin_clz(~((unsigned)byte << 24)); /* ones in front */
        if (w->wide_want > sizeof w->wide)
            w->wide_want = 1;
    }
    w->wide[w->wide_len++] = c;
    if (w->wide_len == w->wide_want)
        end_wide(w);
}

/* --- bytes ----------------------------------------------------------------------------- */

/* Whether `c` completes an escape whose % was itself escaped; *byte is what that says. */
static bool is_escape_again(const struct writer *w, char c, char *byte)
{
    const char *at;

    if (w->len < w->slash + 5)
        return false;
    at = w->out + w->len - 4;
    if (memcmp(at, "%25", 3) != 0 || hex_value((unsigned char)at[3]) < 0 ||
        hex_value((unsigned char)c) < 0)
        return false;
    *byte = (char)(hex_value((unsigned char)at[3]) << 4 | hex_value((unsigned char)c));
    return true;
}

/* Text that is escaped three times is unreadable. */
static void take_byte(struct writer *w, char c, bool escaped)
{
    bool again = false;
    char byte;

    if ((unsigned char)c < 0x80)
        end_wide(w);
    while (!w->in_parameters && is_escape_again(w, c, &byte) && meets(w, TWICE)) {
        w->bad |= again || w->again > w->len - 4;
        w->len -= 4;
        c = byte;
        again = escaped = true;
    }
    if ((unsigned char)c >= 0x80) {
        take_wide(w, c);
        return;
    }
    if (!w->ended)
        take_char(w, c, escaped);
    if (again)
        w->again = w->len;
}

/* --- a whole path ---------------------------------------------------------------------- */

static void end_path(struct writer *w)
{
    const char *dot;

    end_wide(w);
    end_segment(w);
    if (w->len == 1 || w->bad)
        return;
    w->len--; /* the slash at the end */
    const char *name = memrchr(w->out, '/', w->len);

    name++;
    dot = memchr(name, '.', w->len - (size_t)(name - w->out));
    if (w->settings->ignore_extension && dot && dot != name && meets(w, EXTENSION))
        w->len = (size_t)(dot - w->out);
}

/* %u006c: IIS decodes it, to one of several code pages. */
static bool is_wide_escape(const char *at, size_t len)
{
    if (len < 6 || at[0] != '%' || (at[1] | 0x20) != 'u')
        return false;
    for (size_t i = 2; i < 6; i++)
        if (hex_value((unsigned char)at[i]) < 0)
            return false;
    return true;
}

/* Data NULL: unreadable, or no room. */
static struct rn_slice write_reading(struct writer *w, struct rn_slice path)
{
    size_t i = path.len > 0 && path.data[0] == '/';

    w->len = w->slash = 0;
    put(w, "/", 1);
    while (i < path.len && !w->ended && !w->bad) {
        int high = -1, low = -1;

        w->bad |= is_wide_escape(path.data + i, path.len - i);
        if (path.data[i] == '%' && path.len - i > 2) {
            high = hex_value((unsigned char)path.data[i + 1]);
            low = hex_value((unsigned char)path.data[i + 2]);
        }
        if (high >= 0 && low >= 0)
            take_byte(w, (char)(high << 4 | low), true);
        else
            take_byte(w, path.data[i], false);
        i += high >= 0 && low >= 0 ? 3 : 1;
    }
    end_path(w);
    return w->bad ? (struct rn_slice){NULL, 0} : (struct rn_slice){w->out, w->len};
}

static bool is_slash(char c)
{
    return c == '/' || c == '\\';
}

/* How many bytes of a path are //host; 0: it does not begin like that. */
static size_t authority_len(struct rn_slice path)
{
    size_t len = 0;

    if (path.len < 2 || path.data[0] != '/' || !is_slash(path.data[1]))
        return 0;
    while (len < path.len && is_slash(path.data[len]))
        len++;
    while (len < path.len && !is_slash(path.data[len]))
        len++;
    return len;
}

/* The path of http://host/path; anything else is the path. Of http:/path and http:\\host
 * servers do not agree what that is: false. */
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

/* Whether the kinds of a path can be decided independently of each other. */
static bool is_readable(unsigned kinds, struct rn_slice authority)
{
    if (__builtin_popcount(kinds) > KINDS_MAX)
        return false;
    if (kinds & DOTS && kinds & ~(unsigned)(DOTS | EXTENSION))
        return false;
    if (kinds & TWICE && kinds & BAD_UTF8) /* what is dropped may stand inside an escape */
        return false;
    for (size_t i = 0; i < authority.len; i++)
        if (authority.data[i] && strchr("%;#", authority.data[i]))
            return false;
    return true;
}

/* One more reading, unless it is known. False: unreadable, also because there are
 * kinds that show in this reading alone: dots that are spelt in overlong UTF-8. */
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

/* Decodes to the end and cuts nothing off, once with as few segments as possible and
 * once with as many. False: unreadable. */
static bool find_kinds(struct rn_path_readings *r, struct writer w, struct rn_slice path,
                       unsigned *kinds)
{
    struct writer split = w;

    w.out = split.out = r->room;
    w.room = split.room = sizeof r->room;
    w.kinds = TWICE;
    if (!write_reading(&w, path).data)
        return false;
    split.kinds = TWICE | SLASH | BACKSLASH | BACKSLASH_CODE;
    if (!write_reading(&split, path).data)
        return false;
    *kinds = w.met | split.met;
    return true;
}

RN_ASIDE void rn_path_read_all(struct rn_slice target, const struct rn_path_settings *settings,
                               struct rn_path_readings *readings)
{
    struct rn_slice path, authority, after;
    struct writer w = {.settings = settings};
    size_t used = 0;
    unsigned kinds = 0;
    bool good =
        drop_scheme(rn_path_cut_query(target), &path) && find_kinds(readings, w, path, &kinds);

    authority = (struct rn_slice){path.data, authority_len(path)};
    after = (struct rn_slice){path.data + authority.len, path.len - authority.len};
    kinds |= authority.len != 0 ? AUTHORITY : 0;
    good = good && is_readable(kinds, authority);
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
