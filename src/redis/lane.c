/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/lane.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ration/error.h>

#include "base/clock.h"
#include "net/server.h"

struct rn_lane_call {
    struct rn_trip trip; /* first */
    struct rn_lanes *lanes;
    struct rn_lane *lane;
    struct rn_seats seats;
    size_t count;
    bool aside; /* its lane does not wait for it */
    uint64_t nonce;
    int64_t sent_ns;                   /* on the boot-time clock */
    struct rn_lane_call *next, **link; /* among the flying ones; next: of the spare ones, too */
};

static int64_t now_of(const struct rn_lanes *lanes)
{
    return rn_wheel_now(rn_loop_wheel(lanes->trips->routes->loop));
}

/* --- seats -------------------------------------------------------------------------- */

/* A late charge that still has its seat has no reply. */
static void free_seat(struct rn_lanes *lanes, struct rn_seat *seat)
{
    if (seat->late != 0)
        rn_late_charges_forget(&lanes->lates, seat->late);
    seat->late = 0;
    seat->next = lanes->spare_seats;
    lanes->spare_seats = seat;
}

/* A refund was answered, or failed: then the charge is burnt. */
static void end_return(struct rn_lanes *lanes, struct rn_late_charge *late)
{
    bool done = late->charge.error == 0;

    rn_redis_count(done ? &lanes->counts->returned : &lanes->counts->burnt, 1);
    if (done)
        lanes->events->returned(lanes->events->arg, &late->charge);
    rn_late_charges_end(late);
}

static void answer(struct rn_lanes *lanes, struct rn_seat *seat, int error)
{
    struct rn_seat was = *seat;

    free_seat(lanes, seat);
    if (!rn_seat_is_awaited(&was))
        return;
    if (error != 0)
        rn_seat_charge(&was)->error = error;
    if (!was.job->done) {
        end_return(lanes, (struct rn_late_charge *)was.job);
        return;
    }
    lanes->events->answered(lanes->events->arg, was.job, rn_seat_charge(&was));
}

static void fail_all(struct rn_lanes *lanes, struct rn_seats *seats)
{
    struct rn_seats taken = *seats;
    struct rn_seat *seat;

    seats->first = NULL; /* those who hear of it may add to the lane */
    while ((seat = rn_seats_take(&taken)))
        answer(lanes, seat, RATION_ESTORE);
}

/* --- lanes that have something to send ------------------------------------------------ */

static void make_ready(struct rn_lanes *lanes, struct rn_lane *lane)
{
    struct rn_shard *shard = rn_routes_owner(lanes->trips->routes, lane->slot);
    unsigned at = shard ? shard->index : RN_SHARDS;

    if (lane->ready || lane->in_flight > 0 || (!lane->waiting.first && !lane->behind.first))
        return;
    lane->ready = true;
    lane->next = NULL;
    *(lanes->ready[at].first ? lanes->ready[at].end : &lanes->ready[at].first) = lane;
    lanes->ready[at].end = &lane->next;
    if (shard)
        rn_link_call_later(&shard->link);
}

static struct rn_lane *take_ready(struct rn_lanes *lanes, unsigned at)
{
    struct rn_lane *lane = lanes->ready[at].first;

    if (lane) {
        lanes->ready[at].first = lane->next;
        lane->ready = false;
    }
    return lane;
}

void rn_lanes_reroute(struct rn_lanes *lanes)
{
    struct rn_lane *all = NULL, *lane;

    for (unsigned at = 0; at <= RN_SHARDS; at++) {
        while ((lane = take_ready(lanes, at))) {
            lane->next = all;
            all = lane;
        }
    }
    while ((lane = all)) {
        all = lane->next;
        make_ready(lanes, lane);
    }
}

static struct rn_lane *lane_of(const struct rn_lanes *lanes, const struct rn_charge *charge)
{
    unsigned tag = rn_codec_tag(charge->key) % lanes->tags;

    return &lanes->lanes[rn_codec_script_of(charge) * lanes->tags + tag];
}

/* --- calls -------------------------------------------------------------------------- */

/* Those whose jobs have ended are not sent, or not again. */
static void drop_unawaited(struct rn_lane_call *call)
{
    struct rn_seats all = call->seats;
    struct rn_seat *seat;

    call->seats.first = NULL;
    call->count = 0;
    while ((seat = rn_seats_take(&all))) {
        if (rn_seat_is_awaited(seat)) {
            rn_seats_append(&call->seats, seat);
            call->count++;
        } else {
            free_seat(call->lanes, seat);
        }
    }
}

/* A call as batch.lua reads it: the keys of the charges and then those that tell of resets,
 * the nonce, which argument is whose, and the arguments, each of them once: charges of one
 * limit mostly ask for the same. */
struct message {
    char names[2 * RN_LANE_BATCH][RN_CODEC_NAME];
    char arguments[RN_LANE_BATCH][RN_CODEC_BYTES];
    char which[RN_LANE_BATCH]; /* each charge's */
    char nonce[24];
    struct rn_slice words[2 + 3 * RN_LANE_BATCH];
    size_t keys, count; /* of the words */
};

static void add_keys(struct message *m, const struct rn_seats *seats)
{
    for (const struct rn_seat *seat = seats->first; seat; seat = seat->next) {
        char *name = m->names[m->keys];

        m->words[m->keys++] = (struct rn_slice){name, rn_codec_name(rn_seat_charge(seat), name)};
    }
    for (const struct rn_seat *seat = seats->first; seat; seat = seat->next) {
        char *name = m->names[m->keys];

        if (rn_codec_uses_reset_log(rn_seat_charge(seat)))
            m->words[m->keys++] =
                (struct rn_slice){name, rn_codec_reset_log_name(rn_seat_charge(seat), name)};
    }
    m->count = m->keys;
}

/* Adds the argument of the i-th charge to the `n` that there are. Returns how many there are
 * then. */
static size_t add_argument(struct message *m, size_t n, size_t i, const struct rn_charge *charge,
                           size_t pardon)
{
    struct rn_slice *words = m->words + m->count;
    char *bytes = m->arguments[n];
    size_t len = rn_codec_write(charge, pardon, bytes), at = n;

    while (at > 0 && !rn_slice_equal(words[at - 1], (struct rn_slice){bytes, len}))
        at--;
    m->which[i] = (char)(at > 0 ? at - 1 : n);
    if (at == 0)
        words[n++] = (struct rn_slice){bytes, len};
    return n;
}

static void add_arguments(struct message *m, const struct rn_lane_call *call)
{
    size_t i = 0, n = 0, pardon = call->count;
    int len = snprintf(m->nonce, sizeof m->nonce, "%" PRIu64, call->nonce);

    m->words[m->count++] = (struct rn_slice){m->nonce, (size_t)len};
    m->words[m->count++] = (struct rn_slice){m->which, call->count};
    for (const struct rn_seat *seat = call->seats.first; seat; seat = seat->next, i++) {
        pardon += rn_codec_uses_reset_log(rn_seat_charge(seat));
        n = add_argument(m, n, i, rn_seat_charge(seat), pardon);
    }
    m->count += n;
}

static bool send_call(struct rn_trip *trip)
{
    struct rn_lane_call *call = (struct rn_lane_call *)trip;
    struct message message;

    drop_unawaited(call);
    if (call->count == 0)
        return false;
    call->nonce = ++call->lanes->nonce;
    call->sent_ns = rn_clock_boot_ns();
    message.keys = 0;
    add_keys(&message, &call->seats);
    add_arguments(&message, call);
    return rn_trip_send(trip, message.keys, message.words, message.count);
}

/* The call is over. Returns what it held; the lane may send again. */
static struct rn_seats end_call(struct rn_lane_call *call)
{
    struct rn_lanes *lanes = call->lanes;

    *(call->aside ? &lanes->aside : &call->lane->in_flight) -= 1;
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    call->next = lanes->spare_calls;
    lanes->spare_calls = call;
    return call->seats;
}

/* Behind whatever waits, if the server can be asked and there is room. NULL: nothing. */
static void give_back(struct rn_lanes *lanes, struct rn_late_charge *late)
{
    if (!late)
        return;
    struct rn_lane *lane = lane_of(lanes, &late->charge);
    const struct rn_shard *shard = rn_routes_owner(lanes->trips->routes, lane->slot);
    struct rn_seat *seat = shard && !shard->breaker.open ? lanes->spare_seats : NULL;

    if (!seat) {
        late->charge.error = RATION_ESTORE;
        end_return(lanes, late);
        return;
    }
    lanes->spare_seats = seat->next;
    *seat = (struct rn_seat){.job = &late->job, .life = late->job.life};
    rn_seats_append(&lane->behind, seat);
    make_ready(lanes, lane);
}

static void read_answers(struct rn_lanes *lanes, struct rn_seats *seats, const char *answers)
{
    struct rn_seat *seat;

    for (; (seat = rn_seats_take(seats)); answers += RN_CODEC_ANSWER) {
        uint64_t late = seat->late;

        seat->late = 0;
        if (rn_seat_is_awaited(seat))
            rn_codec_read(rn_seat_charge(seat), answers);
        answer(lanes, seat, 0);
        if (late != 0)
            give_back(lanes, rn_late_charges_answer(&lanes->lates, late, answers));
    }
}

static void on_ended(struct rn_trip *trip, const redisReply *reply)
{
    struct rn_lane_call *call = (struct rn_lane_call *)trip;
    struct rn_lanes *lanes = call->lanes;
    struct rn_shard *shard = trip->shard;
    bool is_answer = reply && reply->type != REDIS_REPLY_ERROR;
    struct rn_trip_answers answers;
    bool whole = is_answer && rn_trip_read(reply, call->nonce, call->count, &answers);
    struct rn_seats seats = end_call(call);

    if (is_answer && !whole) {
        rn_redis_count(&lanes->counts->mismatches, 1);
        rn_link_distrust(&shard->link, "the reply to another call");
    }
    if (whole) {
        rn_shard_has_answered(shard, answers.store_us, call->sent_ns, rn_clock_boot_ns());
        read_answers(lanes, &seats, answers.bytes);
    }
    fail_all(lanes, &seats);
    make_ready(lanes, call->lane);
    if (shard && lanes->ready[shard->index].first)
        rn_link_call_later(&shard->link);
}

/* While their slot is on the move. What tells of resets may not be where the key is: who does
 * not need it need not wait for it. */
static bool go_together(const struct rn_seat *a, const struct rn_seat *b)
{
    const struct rn_charge *one = rn_seat_charge(a), *other = rn_seat_charge(b);

    return one->key == other->key && rn_codec_uses_reset_log(one) == rn_codec_uses_reset_log(other);
}

/* Keys of a slot that is on the move: one call for each from now on. */
static bool split_call(struct rn_trip *trip)
{
    struct rn_lane_call *call = (struct rn_lane_call *)trip;
    struct rn_lane *lane = call->lane;
    bool several = false;

    drop_unawaited(call);
    for (const struct rn_seat *seat = call->seats.first; seat && seat->next; seat = seat->next)
        several |= !go_together(seat, seat->next);
    if (!several)
        return false;
    lane->narrow_until_ns = now_of(call->lanes) + RN_LANE_NARROW_NS;
    struct rn_seats seats = end_call(call);
    rn_seats_put_back(&lane->waiting, &seats);
    make_ready(call->lanes, lane);
    return true;
}

static void step_aside(struct rn_trip *trip)
{
    struct rn_lane_call *call = (struct rn_lane_call *)trip;
    struct rn_lanes *lanes = call->lanes;

    if (call->aside || lanes->aside == RN_LANE_ASIDE)
        return;
    call->aside = true;
    lanes->aside++;
    call->lane->in_flight--;
    make_ready(lanes, call->lane);
}

static const struct rn_trip_ops call_ops = {
    .send = send_call, .ended = on_ended, .split = split_call, .step_aside = step_aside};

/* --- sending ------------------------------------------------------------------------ */

/* Moves the next charges from the lane to the call: as many as go together. */
static void fill_call(struct rn_lane_call *call, struct rn_seats *from, bool narrow)
{
    struct rn_seats others = {0};
    struct rn_seat *seat;

    while (call->count < RN_LANE_BATCH && (seat = rn_seats_take(from))) {
        if (!rn_seat_is_awaited(seat)) {
            free_seat(call->lanes, seat);
            continue;
        }
        if (narrow && call->count > 0 && !go_together(seat, call->seats.first)) {
            rn_seats_append(&others, seat);
            continue;
        }
        rn_seats_append(&call->seats, seat);
        call->count++;
        if (seat->job->deadline_ns > call->trip.until_ns)
            call->trip.until_ns = seat->job->deadline_ns;
    }
    rn_seats_put_back(from, &others);
}

static void count_call(struct rn_lanes *lanes, size_t charges)
{
    unsigned size = 63u - (unsigned)__builtin_clzll(charges);

    rn_redis_count(&lanes->counts->calls, 1);
    rn_redis_count(&lanes->counts->sizes[size], 1);
}

/* There is a spare call. Returns whether another one may follow at once: it will not have a
 * key of this one, which has taken all of its charges. */
static bool send_next(struct rn_lanes *lanes, struct rn_lane *lane, bool narrow)
{
    struct rn_lane_call *call = lanes->spare_calls;

    lanes->spare_calls = call->next;
    *call = (struct rn_lane_call){.trip = {.ops = &call_ops,
                                           .trips = lanes->trips,
                                           .script = (enum rn_script)lane->script,
                                           .slot = lane->slot},
                                  .lanes = lanes,
                                  .lane = lane,
                                  .next = lanes->flying,
                                  .link = &lanes->flying};
    if (call->next)
        call->next->link = &call->next;
    lanes->flying = call;
    lane->in_flight++;
    fill_call(call, &lane->waiting, narrow);
    fill_call(call, &lane->behind, narrow);
    size_t count = call->count;
    if (count > 0 && rn_trip_begin(&call->trip)) {
        count_call(lanes, count);
        return narrow && count < RN_LANE_BATCH;
    }
    struct rn_seats seats = end_call(call);
    fail_all(lanes, &seats);
    return false;
}

void rn_lanes_send(struct rn_lanes *lanes, const struct rn_shard *shard)
{
    struct rn_lane *lane;

    while (lanes->spare_calls && rn_link_room(&shard->link) >= 2 &&
           (lane = take_ready(lanes, shard->index))) {
        bool narrow = lane->narrow_until_ns > now_of(lanes);

        while (send_next(lanes, lane, narrow) && lane->waiting.first && lanes->spare_calls &&
               rn_link_room(&shard->link) >= 2)
            ;
        make_ready(lanes, lane);
    }
}

void rn_lanes_fail(struct rn_lanes *lanes, const struct rn_shard *shard)
{
    struct rn_lane *lane;

    while ((lane = take_ready(lanes, shard->index))) {
        fail_all(lanes, &lane->waiting);
        fail_all(lanes, &lane->behind);
    }
}

/* --- late charges ------------------------------------------------------------------- */

void rn_lanes_expire(struct rn_lanes *lanes, int64_t now_ns)
{
    for (const struct rn_lane_call *call = lanes->flying; call; call = call->next)
        for (struct rn_seat *seat = call->seats.first; seat; seat = seat->next) {
            if (!rn_seat_is_awaited(seat) || !seat->job->done || seat->job->deadline_ns > now_ns)
                continue;
            seat->late = rn_late_charges_note(&lanes->lates, rn_seat_charge(seat));
            rn_seat_charge(seat)->late = seat->late;
        }
}

void rn_lanes_disown(struct rn_lanes *lanes, const struct rn_charge *charge, uint64_t late)
{
    give_back(lanes, rn_late_charges_disown(&lanes->lates, late, charge));
}

/* --- the lanes ---------------------------------------------------------------------- */

uint16_t rn_lanes_slot(const struct rn_lanes *lanes, const struct rn_charge *charge)
{
    return lane_of(lanes, charge)->slot;
}

bool rn_lanes_add(struct rn_lanes *lanes, struct rn_job *job, size_t index)
{
    struct rn_seat *seat = lanes->spare_seats;

    if (!seat)
        return false;
    lanes->spare_seats = seat->next;
    *seat = (struct rn_seat){.job = job, .life = job->life, .index = index};
    struct rn_lane *lane = lane_of(lanes, rn_seat_charge(seat));
    rn_seats_append(&lane->waiting, seat);
    make_ready(lanes, lane);
    return true;
}

static void init_lanes(struct rn_lanes *lanes)
{
    for (unsigned i = 0; i < RN_SCRIPTS_STRICT * lanes->tags; i++) {
        lanes->lanes[i].script = (uint8_t)(i / lanes->tags);
        lanes->lanes[i].slot =
            lanes->tags > 1 ? rn_hash_slot_of(rn_codec_tag_name(i % lanes->tags)) : 0;
    }
    for (unsigned i = 0; i < RN_LANE_SEATS; i++)
        free_seat(lanes, &lanes->seats[i]);
    for (unsigned i = 0; i < RN_LANE_CALLS; i++) {
        lanes->calls[i].next = lanes->spare_calls;
        lanes->spare_calls = &lanes->calls[i];
    }
}

bool rn_lanes_init(struct rn_lanes *lanes, struct rn_trips *trips, struct rn_redis_counts *counts,
                   const struct rn_lanes_events *events)
{
    bool cluster = trips->routes->url->kind == RN_URL_CLUSTER;

    *lanes = (struct rn_lanes){
        .trips = trips, .counts = counts, .events = events, .tags = cluster ? RN_CODEC_TAGS : 1};
    lanes->lanes = calloc(RN_SCRIPTS_STRICT * lanes->tags, sizeof *lanes->lanes);
    lanes->seats = calloc(RN_LANE_SEATS, sizeof *lanes->seats);
    lanes->calls = calloc(RN_LANE_CALLS, sizeof *lanes->calls);
    if (!lanes->lanes || !lanes->seats || !lanes->calls || !rn_late_charges_init(&lanes->lates))
        return false;
    init_lanes(lanes);
    return true;
}

void rn_lanes_done(struct rn_lanes *lanes)
{
    free(lanes->lanes);
    free(lanes->seats);
    free(lanes->calls);
    rn_late_charges_done(&lanes->lates);
    *lanes = (struct rn_lanes){0};
}
