/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/strict/batch_queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ration/error.h>

#include "base/clock.h"
#include "net/server.h"

struct rn_batch {
    struct rn_script_call call; /* first */
    struct rn_batch_queues *queues;
    struct rn_batch_queue *queue;
    struct rn_seats seats;
    size_t count;
    bool aside; /* its queue does not wait for it */
    uint64_t nonce;
    int64_t sent_ns;               /* on the boot-time clock */
    struct rn_batch *next, **link; /* among the flying ones; next: of the spare ones, too */
};

static int64_t now_of(const struct rn_batch_queues *queues)
{
    return rn_wheel_now(rn_loop_wheel(queues->calls->routes->loop));
}

/* --- seats -------------------------------------------------------------------------- */

/* A late charge that still has its seat has no reply. */
static void free_seat(struct rn_batch_queues *queues, struct rn_seat *seat)
{
    if (seat->late != 0)
        rn_late_charges_forget(&queues->lates, seat->late);
    seat->late = 0;
    seat->next = queues->spare_seats;
    queues->spare_seats = seat;
}

/* A refund was answered, or failed: then the charge is burnt. */
static void end_return(struct rn_batch_queues *queues, struct rn_late_charge *late)
{
    bool done = late->charge.error == 0;

    rn_redis_count(done ? &queues->counts->returned : &queues->counts->burnt, 1);
    if (done)
        queues->events->returned(queues->events->arg, &late->charge);
    rn_late_charges_end(late);
}

static void answer(struct rn_batch_queues *queues, struct rn_seat *seat, int error)
{
    struct rn_seat was = *seat;

    free_seat(queues, seat);
    if (!rn_seat_is_awaited(&was))
        return;
    if (error != 0)
        rn_seat_charge(&was)->error = error;
    if (!was.job->done) {
        end_return(queues, (struct rn_late_charge *)was.job);
        return;
    }
    queues->events->answered(queues->events->arg, was.job, rn_seat_charge(&was));
}

static void fail_all(struct rn_batch_queues *queues, struct rn_seats *seats)
{
    struct rn_seats taken = *seats;
    struct rn_seat *seat;

    seats->first = NULL; /* those who hear of it may add to the queue */
    while ((seat = rn_seats_take(&taken)))
        answer(queues, seat, RATION_ESTORE);
}

/* --- queues that have something to send ------------------------------------------------ */

static void make_ready(struct rn_batch_queues *queues, struct rn_batch_queue *queue)
{
    struct rn_shard *shard = rn_routes_owner(queues->calls->routes, queue->slot);
    unsigned at = shard ? shard->index : RN_SHARDS;

    if (queue->ready || queue->in_flight > 0 || (!queue->waiting.first && !queue->behind.first))
        return;
    queue->ready = true;
    queue->next = NULL;
    *(queues->ready[at].first ? queues->ready[at].end : &queues->ready[at].first) = queue;
    queues->ready[at].end = &queue->next;
    if (shard)
        rn_link_call_later(&shard->link);
}

static struct rn_batch_queue *take_ready(struct rn_batch_queues *queues, unsigned at)
{
    struct rn_batch_queue *queue = queues->ready[at].first;

    if (queue) {
        queues->ready[at].first = queue->next;
        queue->ready = false;
    }
    return queue;
}

void rn_batch_queue_reroute(struct rn_batch_queues *queues)
{
    struct rn_batch_queue *all = NULL, *queue;

    for (unsigned at = 0; at <= RN_SHARDS; at++) {
        while ((queue = take_ready(queues, at))) {
            queue->next = all;
            all = queue;
        }
    }
    while ((queue = all)) {
        all = queue->next;
        make_ready(queues, queue);
    }
}

static struct rn_batch_queue *queue_of(const struct rn_batch_queues *queues,
                                       const struct rn_charge *charge)
{
    unsigned tag = rn_codec_tag(charge->key) % queues->tags;

    return &queues->queues[rn_codec_script_of(charge) * queues->tags + tag];
}

/* --- calls -------------------------------------------------------------------------- */

/* Those whose jobs have ended are not sent, or not again. */
static void drop_unawaited(struct rn_batch *batch)
{
    struct rn_seats all = batch->seats;
    struct rn_seat *seat;

    batch->seats.first = NULL;
    batch->count = 0;
    while ((seat = rn_seats_take(&all))) {
        if (rn_seat_is_awaited(seat)) {
            rn_seats_append(&batch->seats, seat);
            batch->count++;
        } else {
            free_seat(batch->queues, seat);
        }
    }
}

/* A call as batch.lua reads it: the keys of the charges and then those that tell of resets,
 * the nonce, which argument is whose, and the arguments, each of them once: charges of one
 * limit mostly ask for the same. */
struct message {
    char names[2 * RN_BATCH_CHARGES][RN_CODEC_NAME];
    char arguments[RN_BATCH_CHARGES][RN_CODEC_BYTES];
    char which[RN_BATCH_CHARGES]; /* each charge's */
    char nonce[24];
    struct rn_slice words[2 + 3 * RN_BATCH_CHARGES];
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

static void add_arguments(struct message *m, const struct rn_batch *batch)
{
    size_t i = 0, n = 0, pardon = batch->count;
    int len = snprintf(m->nonce, sizeof m->nonce, "%" PRIu64, batch->nonce);

    m->words[m->count++] = (struct rn_slice){m->nonce, (size_t)len};
    m->words[m->count++] = (struct rn_slice){m->which, batch->count};
    for (const struct rn_seat *seat = batch->seats.first; seat; seat = seat->next, i++) {
        pardon += rn_codec_uses_reset_log(rn_seat_charge(seat));
        n = add_argument(m, n, i, rn_seat_charge(seat), pardon);
    }
    m->count += n;
}

static bool send_batch(struct rn_script_call *call)
{
    struct rn_batch *batch = (struct rn_batch *)call;
    struct message message;

    drop_unawaited(batch);
    if (batch->count == 0)
        return false;
    batch->nonce = ++batch->queues->nonce;
    batch->sent_ns = rn_clock_boot_ns();
    message.keys = 0;
    add_keys(&message, &batch->seats);
    add_arguments(&message, batch);
    return rn_script_call_send(call, message.keys, message.words, message.count);
}

/* The call is over. Returns what it held; the queue may send again. */
static struct rn_seats end_batch(struct rn_batch *batch)
{
    struct rn_batch_queues *queues = batch->queues;

    *(batch->aside ? &queues->aside : &batch->queue->in_flight) -= 1;
    *batch->link = batch->next;
    if (batch->next)
        batch->next->link = batch->link;
    batch->next = queues->spare_batches;
    queues->spare_batches = batch;
    return batch->seats;
}

/* Behind whatever waits, if the server can be asked and there is room. NULL: nothing. */
static void give_back(struct rn_batch_queues *queues, struct rn_late_charge *late)
{
    if (!late)
        return;
    struct rn_batch_queue *queue = queue_of(queues, &late->charge);
    const struct rn_shard *shard = rn_routes_owner(queues->calls->routes, queue->slot);
    struct rn_seat *seat = shard && !shard->breaker.open ? queues->spare_seats : NULL;

    if (!seat) {
        late->charge.error = RATION_ESTORE;
        end_return(queues, late);
        return;
    }
    queues->spare_seats = seat->next;
    *seat = (struct rn_seat){.job = &late->job, .life = late->job.life};
    rn_seats_append(&queue->behind, seat);
    make_ready(queues, queue);
}

static void read_answers(struct rn_batch_queues *queues, struct rn_seats *seats,
                         const char *answers)
{
    struct rn_seat *seat;

    for (; (seat = rn_seats_take(seats)); answers += RN_CODEC_ANSWER) {
        uint64_t late = seat->late;

        seat->late = 0;
        if (rn_seat_is_awaited(seat))
            rn_codec_read(rn_seat_charge(seat), answers);
        answer(queues, seat, 0);
        if (late != 0)
            give_back(queues, rn_late_charges_answer(&queues->lates, late, answers));
    }
}

static void on_ended(struct rn_script_call *call, const redisReply *reply)
{
    struct rn_batch *batch = (struct rn_batch *)call;
    struct rn_batch_queues *queues = batch->queues;
    struct rn_shard *shard = call->shard;
    bool is_answer = reply && reply->type != REDIS_REPLY_ERROR;
    struct rn_script_call_answers answers;
    bool whole = is_answer && rn_script_call_read(reply, batch->nonce, batch->count, &answers);
    struct rn_seats seats = end_batch(batch);

    if (is_answer && !whole) {
        rn_redis_count(&queues->counts->mismatches, 1);
        rn_link_distrust(&shard->link, "the reply to another call");
    }
    if (whole) {
        rn_shard_has_answered(shard, answers.store_us, batch->sent_ns, rn_clock_boot_ns());
        read_answers(queues, &seats, answers.bytes);
    }
    fail_all(queues, &seats);
    make_ready(queues, batch->queue);
    if (shard && queues->ready[shard->index].first)
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
static bool split_batch(struct rn_script_call *call)
{
    struct rn_batch *batch = (struct rn_batch *)call;
    struct rn_batch_queue *queue = batch->queue;
    bool several = false;

    drop_unawaited(batch);
    for (const struct rn_seat *seat = batch->seats.first; seat && seat->next; seat = seat->next)
        several |= !go_together(seat, seat->next);
    if (!several)
        return false;
    queue->narrow_until_ns = now_of(batch->queues) + RN_BATCH_QUEUE_NARROW_NS;
    struct rn_seats seats = end_batch(batch);
    rn_seats_put_back(&queue->waiting, &seats);
    make_ready(batch->queues, queue);
    return true;
}

static void step_aside(struct rn_script_call *call)
{
    struct rn_batch *batch = (struct rn_batch *)call;
    struct rn_batch_queues *queues = batch->queues;

    if (batch->aside || queues->aside == RN_BATCH_QUEUE_ASIDE)
        return;
    batch->aside = true;
    queues->aside++;
    batch->queue->in_flight--;
    make_ready(queues, batch->queue);
}

static const struct rn_script_call_ops batch_ops = {
    .send = send_batch, .ended = on_ended, .split = split_batch, .step_aside = step_aside};

/* --- sending ------------------------------------------------------------------------ */

/* Moves the next charges from the queue to the call: as many as go together. */
static void fill_batch(struct rn_batch *batch, struct rn_seats *from, bool narrow)
{
    struct rn_seats others = {0};
    struct rn_seat *seat;

    while (batch->count < RN_BATCH_CHARGES && (seat = rn_seats_take(from))) {
        if (!rn_seat_is_awaited(seat)) {
            free_seat(batch->queues, seat);
            continue;
        }
        if (narrow && batch->count > 0 && !go_together(seat, batch->seats.first)) {
            rn_seats_append(&others, seat);
            continue;
        }
        rn_seats_append(&batch->seats, seat);
        batch->count++;
        if (seat->job->deadline_ns > batch->call.until_ns)
            batch->call.until_ns = seat->job->deadline_ns;
    }
    rn_seats_put_back(from, &others);
}

static void count_batch(struct rn_batch_queues *queues, size_t charges)
{
    unsigned size = 63u - (unsigned)__builtin_clzll(charges);

    rn_redis_count(&queues->counts->calls, 1);
    rn_redis_count(&queues->counts->sizes[size], 1);
}

/* There is a spare call. Returns whether another one may follow at once: it will not have a
 * key of this one, which has taken all of its charges. */
static bool send_next(struct rn_batch_queues *queues, struct rn_batch_queue *queue, bool narrow)
{
    struct rn_batch *batch = queues->spare_batches;

    queues->spare_batches = batch->next;
    *batch = (struct rn_batch){.call = {.ops = &batch_ops,
                                        .calls = queues->calls,
                                        .script = (enum rn_script)queue->script,
                                        .slot = queue->slot},
                               .queues = queues,
                               .queue = queue,
                               .next = queues->flying,
                               .link = &queues->flying};
    if (batch->next)
        batch->next->link = &batch->next;
    queues->flying = batch;
    queue->in_flight++;
    fill_batch(batch, &queue->waiting, narrow);
    fill_batch(batch, &queue->behind, narrow);
    size_t count = batch->count;
    if (count > 0 && rn_script_call_begin(&batch->call)) {
        count_batch(queues, count);
        return narrow && count < RN_BATCH_CHARGES;
    }
    struct rn_seats seats = end_batch(batch);
    fail_all(queues, &seats);
    return false;
}

void rn_batch_queue_send(struct rn_batch_queues *queues, const struct rn_shard *shard)
{
    struct rn_batch_queue *queue;

    while (queues->spare_batches && rn_link_room(&shard->link) >= 2 &&
           (queue = take_ready(queues, shard->index))) {
        bool narrow = queue->narrow_until_ns > now_of(queues);

        while (send_next(queues, queue, narrow) && queue->waiting.first && queues->spare_batches &&
               rn_link_room(&shard->link) >= 2)
            ;
        make_ready(queues, queue);
    }
}

void rn_batch_queue_fail(struct rn_batch_queues *queues, const struct rn_shard *shard)
{
    struct rn_batch_queue *queue;

    while ((queue = take_ready(queues, shard->index))) {
        fail_all(queues, &queue->waiting);
        fail_all(queues, &queue->behind);
    }
}

/* --- late charges ------------------------------------------------------------------- */

void rn_batch_queue_expire(struct rn_batch_queues *queues, int64_t now_ns)
{
    for (const struct rn_batch *batch = queues->flying; batch; batch = batch->next)
        for (struct rn_seat *seat = batch->seats.first; seat; seat = seat->next) {
            if (!rn_seat_is_awaited(seat) || !seat->job->done || seat->job->deadline_ns > now_ns)
                continue;
            seat->late = rn_late_charges_note(&queues->lates, rn_seat_charge(seat));
            rn_seat_charge(seat)->late = seat->late;
        }
}

void rn_batch_queue_disown(struct rn_batch_queues *queues, const struct rn_charge *charge,
                           uint64_t late)
{
    give_back(queues, rn_late_charges_disown(&queues->lates, late, charge));
}

/* --- the queues ---------------------------------------------------------------------- */

uint16_t rn_batch_queue_slot(const struct rn_batch_queues *queues, const struct rn_charge *charge)
{
    return queue_of(queues, charge)->slot;
}

bool rn_batch_queue_add(struct rn_batch_queues *queues, struct rn_job *job, size_t index)
{
    struct rn_seat *seat = queues->spare_seats;

    if (!seat)
        return false;
    queues->spare_seats = seat->next;
    *seat = (struct rn_seat){.job = job, .life = job->life, .index = index};
    struct rn_batch_queue *queue = queue_of(queues, rn_seat_charge(seat));
    rn_seats_append(&queue->waiting, seat);
    make_ready(queues, queue);
    return true;
}

static void init_queues(struct rn_batch_queues *queues)
{
    for (unsigned i = 0; i < RN_SCRIPTS_STRICT * queues->tags; i++) {
        queues->queues[i].script = (uint8_t)(i / queues->tags);
        queues->queues[i].slot =
            queues->tags > 1 ? rn_hash_slot_of(rn_codec_tag_name(i % queues->tags)) : 0;
    }
    for (unsigned i = 0; i < RN_BATCH_QUEUE_CHARGES; i++)
        free_seat(queues, &queues->seats[i]);
    for (unsigned i = 0; i < RN_BATCH_QUEUE_BATCHES; i++) {
        queues->batches[i].next = queues->spare_batches;
        queues->spare_batches = &queues->batches[i];
    }
}

bool rn_batch_queue_init(struct rn_batch_queues *queues, struct rn_script_caller *calls,
                         struct rn_redis_counts *counts, const struct rn_batch_queue_events *events)
{
    bool cluster = calls->routes->url->kind == RN_URL_CLUSTER;

    *queues = (struct rn_batch_queues){
        .calls = calls, .counts = counts, .events = events, .tags = cluster ? RN_CODEC_TAGS : 1};
    queues->queues = calloc(RN_SCRIPTS_STRICT * queues->tags, sizeof *queues->queues);
    queues->seats = calloc(RN_BATCH_QUEUE_CHARGES, sizeof *queues->seats);
    queues->batches = calloc(RN_BATCH_QUEUE_BATCHES, sizeof *queues->batches);
    if (!queues->queues || !queues->seats || !queues->batches ||
        !rn_late_charges_init(&queues->lates))
        return false;
    init_queues(queues);
    return true;
}

void rn_batch_queue_done(struct rn_batch_queues *queues)
{
    free(queues->queues);
    free(queues->seats);
    free(queues->batches);
    rn_late_charges_done(&queues->lates);
    *queues = (struct rn_batch_queues){0};
}
