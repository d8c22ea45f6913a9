/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tickets as bytes and as text. Hashes and times have 8 bytes, lowest first; other
 * numbers 7 bits a byte, lowest first, the high bit set in all but the last.
 *
 *   body         version 1, kind, id, content
 *   RESERVATION  at, timeout, reserved, number of receipts and whether the limit
 *                is given, receipts, the limit if it is, lease and its places
 *   LEASE        places
 *   DUE, DELAY   at, timeout, number of receipts, receipts
 *   receipt      hash, salt, mark, capacity, taken
 *   places       how many; for each hash, amount, length of the lease
 */
#include "limiter/tickets/ticket.h"

#include <string.h>

#include "core/algorithm.h"
#include "core/limit.h"
#include "limiter/limiter.h"

#define VERSION 2
#define MAC_BYTES 8
#define BYTES_MAX (RN_TICKET_BODY_MAX + MAC_BYTES)

/* Numbers of at most 10 bytes. */
#define HEAD_MAX (2 + 8 + 8 + 3 * 10 + 8)
#define RECEIPT_MAX (3 * 8 + 2 * 10)
#define PLACES_MAX (1 + RATION_LEASES_MAX * (8 + 2 * 10))
#define SPEC_MAX (10 * 10 + RATION_ZONE_TEXT)
_Static_assert(HEAD_MAX + RATION_CHARGES_MAX * RECEIPT_MAX + PLACES_MAX <= RN_TICKET_BODY_MAX,
               "any reservation under rules fits");
_Static_assert(HEAD_MAX + RECEIPT_MAX + SPEC_MAX + PLACES_MAX <= RN_TICKET_BODY_MAX,
               "a reservation of a given limit fits");

/* --- bytes ------------------------------------------------------------------------- */

struct writer {
    unsigned char *at;
};

static void put_fixed(struct writer *w, uint64_t n)
{
    for (unsigned i = 0; i < 8; i++)
        *w->at++ = (unsigned char)(n >> (8 * i));
}

static void put_number(struct writer *w, uint64_t n)
{
    for (; n >= 0x80; n >>= 7)
        *w->at++ = (unsigned char)(n | 0x80);
    *w->at++ = (unsigned char)n;
}

/* Bytes that are missing read as 0 and set `bad`. */
struct reader {
    const unsigned char *at, *end;
    bool bad;
};

static uint64_t get_fixed(struct reader *r)
{
    uint64_t n = 0;

    if (r->end - r->at < 8) {
        r->bad = true;
        return 0;
    }
    for (unsigned i = 0; i < 8; i++)
        n |= (uint64_t)*r->at++ << (8 * i);
    return n;
}

/* Rejects a number in more bytes than it needs: there is one text for each ticket. */
static uint64_t get_number(struct reader *r)
{
    uint64_t n = 0;

    for (unsigned shift = 0; r->at < r->end && shift < 64; shift += 7) {
        uint64_t bits = *r->at & 0x7F;
        bool last = *r->at++ < 0x80;

        if (bits << shift >> shift != bits || (last && bits == 0 && shift != 0))
            break;
        n |= bits << shift;
        if (last)
            return n;
    }
    r->bad = true;
    return 0;
}

/* A number that is at most `most`. */
static uint64_t get_up_to(struct reader *r, uint64_t most)
{
    uint64_t n = get_number(r);

    r->bad |= n > most;
    return r->bad ? 0 : n;
}

/* --- content ------------------------------------------------------------------------- */

/* The amount and, of adaptive places, the minimum: above the bits that an amount needs. */
#define AMOUNT_BITS 14
_Static_assert(RATION_PLACES_MAX < 1 << AMOUNT_BITS, "an amount fits");

static void put_places(struct writer *w, const struct rn_ticket *t)
{
    put_number(w, t->place_count);
    for (uint32_t i = 0; i < t->place_count; i++) {
        put_fixed(w, t->places[i].hash);
        put_number(w, t->places[i].amount | (uint64_t)t->places[i].adaptive_min << AMOUNT_BITS);
        put_number(w, (uint64_t)t->places[i].lease_ns);
    }
}

static void get_places(struct reader *r, struct rn_ticket *t)
{
    t->place_count = (uint32_t)get_up_to(r, RATION_LEASES_MAX);
    for (uint32_t i = 0; i < t->place_count; i++) {
        t->places[i].hash = get_fixed(r);
        uint64_t both = get_up_to(r, (UINT64_C(1) << 2 * AMOUNT_BITS) - 1);

        t->places[i].amount = both & ((1u << AMOUNT_BITS) - 1);
        t->places[i].adaptive_min = (uint32_t)(both >> AMOUNT_BITS);
        r->bad |= rn_limit_fault(&(struct ration_limit){
                      .algorithm = RATION_CONCURRENCY,
                      .amount = t->places[i].amount,
                      .adaptive_min = (uint16_t)t->places[i].adaptive_min}) != NULL;
        t->places[i].lease_ns = (int64_t)get_up_to(r, RATION_LEASE_MAX_NS);
    }
}

/* Without a lease: places are no receipts. */
static void put_spec(struct writer *w, const struct ration_limit *spec)
{
    size_t len = strnlen(spec->zone, RATION_ZONE_TEXT - 1);

    put_number(w, spec->algorithm);
    put_number(w, spec->amount);
    put_number(w, (uint64_t)spec->period_ns);
    put_number(w, spec->burst);
    put_number(w, spec->queue);
    put_number(w, spec->sub_windows);
    put_number(w, spec->from_first);
    put_number(w, (uint64_t)spec->step_ns);
    put_number(w, (uint64_t)spec->calendar);
    if (spec->calendar == RATION_CALENDAR_NONE)
        return;
    put_number(w, len);
    memcpy(w->at, spec->zone, len);
    w->at += len;
}

static void get_spec(struct reader *r, struct ration_limit *spec)
{
    const struct rn_algorithm *algorithm = rn_algorithm_find(get_number(r));

    r->bad |= !algorithm;
    *spec = (struct ration_limit){.algorithm = algorithm ? algorithm->algorithm : RATION_UNLIMITED,
                                  .amount = get_number(r)};
    spec->period_ns = (int64_t)get_up_to(r, INT64_MAX);
    spec->burst = get_number(r);
    spec->queue = get_number(r);
    spec->sub_windows = (uint32_t)get_up_to(r, UINT32_MAX);
    spec->from_first = get_up_to(r, 1) != 0;
    spec->step_ns = (int64_t)get_up_to(r, INT64_MAX);
    spec->calendar = (enum ration_calendar)get_up_to(r, RATION_CALENDAR_YEAR);
    if (spec->calendar != RATION_CALENDAR_NONE) {
        size_t len = get_up_to(r, RATION_ZONE_TEXT - 1);

        if ((size_t)(r->end - r->at) < len) {
            r->bad = true;
            return;
        }
        memcpy(spec->zone, r->at, len);
        spec->zone[len] = '\0';
        r->at += len;
        r->bad |= strlen(spec->zone) != len;
    }
    r->bad |= spec->algorithm == RATION_CONCURRENCY || rn_limit_fault(spec) != NULL;
}

size_t rn_ticket_write_body(const struct rn_ticket *t, unsigned char out[RN_TICKET_BODY_MAX])
{
    bool reserves = t->kind == RN_TICKET_RESERVATION, given = reserves && t->given;
    struct writer w = {.at = out};

    *w.at++ = VERSION;
    *w.at++ = (unsigned char)t->kind;
    put_fixed(&w, t->id);
    if (t->kind == RN_TICKET_LEASE) {
        put_places(&w, t);
        return (size_t)(w.at - out);
    }
    put_fixed(&w, (uint64_t)t->at_ns);
    put_number(&w, (uint64_t)t->timeout_ns);
    if (reserves)
        put_number(&w, t->reserved);
    put_number(&w, reserves ? 2 * t->receipt_count + given : t->receipt_count);
    for (uint32_t i = 0; i < t->receipt_count; i++) {
        const struct ration_receipt *receipt = &t->receipts[i];

        put_fixed(&w, receipt->hash);
        put_fixed(&w, receipt->salt);
        put_fixed(&w, (uint64_t)receipt->mark);
        put_number(&w, receipt->cap);
        put_number(&w, receipt->taken);
    }
    if (given)
        put_spec(&w, &t->spec);
    if (reserves)
        put_places(&w, t);
    if (reserves && t->place_count != 0)
        put_fixed(&w, t->lease);
    return (size_t)(w.at - out);
}

bool rn_ticket_parse_body(const unsigned char *body, size_t len, struct rn_ticket *t)
{
    struct reader r = {.at = body + 2, .end = body + len};

    if (len < 2 || body[0] != VERSION || body[1] < RN_TICKET_RESERVATION ||
        body[1] > RN_TICKET_DELAY)
        return false;
    t->kind = (enum rn_ticket_kind)body[1];
    t->id = get_fixed(&r);
    t->given = false;
    t->receipt_count = t->place_count = 0;
    bool reserves = t->kind == RN_TICKET_RESERVATION, places = t->kind == RN_TICKET_LEASE;

    if (!places) {
        t->at_ns = (int64_t)get_fixed(&r);
        t->timeout_ns = (int64_t)get_up_to(&r, INT64_MAX);
        t->reserved = reserves ? get_number(&r) : 0;
        uint64_t count = get_up_to(&r, 2 * RATION_CHARGES_MAX + 1);

        t->given = reserves && count % 2 != 0;
        t->receipt_count = (uint32_t)(reserves ? count / 2 : count);
        r.bad |= t->receipt_count > (t->given ? 1 : RATION_CHARGES_MAX);
    }
    for (uint32_t i = 0; i < t->receipt_count && !r.bad; i++) {
        t->receipts[i].hash = get_fixed(&r);
        t->receipts[i].salt = get_fixed(&r);
        t->receipts[i].mark = (int64_t)get_fixed(&r);
        t->receipts[i].cap = get_number(&r);
        t->receipts[i].taken = get_number(&r);
    }
    if (t->given)
        get_spec(&r, &t->spec);
    if (reserves || places)
        get_places(&r, t);
    if (reserves && t->place_count != 0)
        t->lease = get_fixed(&r);
    return !r.bad && r.at == r.end;
}

/* --- text ------------------------------------------------------------------------------ */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* 64: not in the alphabet. */
static uint32_t value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (uint32_t)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (uint32_t)(c - 'a' + 26);
    if (c >= '0' && c <= '9')
        return (uint32_t)(c - '0' + 52);
    return c == '-' ? 62 : c == '_' ? 63 : 64;
}

/* How many bytes; 0 if the text is not what rn_ticket_write makes, or too long. */
static size_t decode(struct rn_slice text, unsigned char out[BYTES_MAX])
{
    size_t n = 0;
    uint32_t bits = 0;
    unsigned bit_count = 0;

    if (text.len >= RATION_TICKET_SIZE || text.len % 4 == 1)
        return 0;
    for (size_t i = 0; i < text.len; i++) {
        uint32_t value = value_of(text.data[i]);

        if (value > 63)
            return 0;
        bits = bits << 6 | value;
        bit_count += 6;
        if (bit_count < 8)
            continue;
        if (n == BYTES_MAX)
            return 0;
        bit_count -= 8;
        out[n++] = (unsigned char)(bits >> bit_count);
    }
    return (bits & ((1U << bit_count) - 1)) == 0 ? n : 0;
}

void rn_ticket_write(const struct rn_ticket *t, const struct rn_hash_key *key,
                     char out[RATION_TICKET_SIZE])
{
    unsigned char bytes[BYTES_MAX];
    size_t len = rn_ticket_write_body(t, bytes);
    struct writer mac = {.at = bytes + len};

    uint32_t bits = 0;
    unsigned bit_count = 0;

    put_fixed(&mac, rn_siphash(key, bytes, len));
    for (size_t i = 0; i < len + MAC_BYTES; i++) {
        bits = bits << 8 | bytes[i];
        for (bit_count += 8; bit_count >= 6; bit_count -= 6)
            *out++ = alphabet[bits >> (bit_count - 6) & 63];
    }
    if (bit_count != 0)
        *out++ = alphabet[bits << (6 - bit_count) & 63];
    *out = '\0';
}

bool rn_ticket_parse(struct rn_slice text, const struct rn_hash_key *keys, size_t count,
                     struct rn_ticket *t)
{
    unsigned char bytes[BYTES_MAX];
    size_t len = decode(text, bytes);

    if (len < MAC_BYTES)
        return false;
    len -= MAC_BYTES;
    struct reader reader = {.at = bytes + len, .end = bytes + len + MAC_BYTES};
    uint64_t mac = get_fixed(&reader);

    for (size_t i = 0; i < count; i++)
        if (rn_siphash(&keys[i], bytes, len) == mac)
            return rn_ticket_parse_body(bytes, len, t);
    return false;
}

/* --- the limiter's keys ---------------------------------------------------------------- */

void rn_ticket_issue(const struct ration *r, const struct rn_ticket *t,
                     char out[RATION_TICKET_SIZE])
{
    struct rn_hash_key key = rn_ticket_keys_signer(&r->ticket_keys);

    rn_ticket_write(t, &key, out);
}

void rn_ticket_issue_receipts(struct ration *r, enum rn_ticket_kind kind, int64_t at_ns,
                              int64_t timeout_ns, const struct ration_receipt *receipts,
                              uint32_t count, char out[RATION_TICKET_SIZE])
{
    struct rn_ticket t;

    t.kind = kind;
    t.id = rn_limiter_new_id(r);
    t.at_ns = at_ns;
    t.timeout_ns = timeout_ns;
    t.receipt_count = count;
    memcpy(t.receipts, receipts, count * sizeof *receipts);
    rn_ticket_issue(r, &t, out);
}

bool rn_ticket_verify(const struct ration *r, const char *text, size_t len, struct rn_ticket *t)
{
    struct rn_hash_key keys[RN_TICKET_KEYS];
    size_t count = rn_ticket_keys_list(&r->ticket_keys, keys);

    return rn_ticket_parse((struct rn_slice){text, len}, keys, count, t);
}
