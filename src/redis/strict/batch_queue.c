/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/strict/batch_queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "redis/timing.h"

struct rn_batch {
    struct rn_script_call call; /* first */
    struct rn_batch_queues *queues;
    struct rn_batch_queue *queue;
    struct rn_charge_fifo charges;
    size_t count;
    bool aside; /* its queue goes on without it */
    uint64_t nonce;
    int64_t sent_ns;               /* on the boot-time clock */
    struct rn_batch *next, **link; /* among the flying batches; next: also among the spare ones */
};

/* --- queued charges ------------------------------------------------------------------- */

static bool is_awaited(const struct rn_queued_charge *queued)
{
    return queued->job->life == queued->life;
}

static struct rn_charge *charge_of(const struct rn_queued_charge *queued)
{
    return &queued->job->batch[queued->index];
}

static void fifo_append(struct rn_charge_fifo *fifo, struct rn_queued_charge *queued)
{
    queued->next = NULL;
    *(fifo->first ? fifo->end : &fifo->first) = queued;
    fifo->end = &queued->next;
}

/* NULL: there is none. */
static struct rn_queued_charge *fifo_take(struct rn_charge_fifo *fifo)
{
    struct rn_queued_charge *queued = fifo->first;

    if (queued)
        fifo->first = queued->next;
    return queued;
}

/* Moves `from` to the front of `waiting`. */
static void fifo_put_back(struct rn_charge_fifo *waiting, struct rn_charge_fifo *from)
{
    if (!from->first)
        return;
    *from->end = waiting->first;
    waiting->end = waiting->first ? waiting->end : from->end;
    waiting->first = from->first;
    from->first = NULL;
}

/* A charge that is late and still queued gets no reply any more. */
static void free_queued(struct rn_batch_queues *queues, struct rn_queued_charge *queued)
{
    if (queued->late != 0)
        rn_late_charges_forget(&queues->lates, queued->late);
    queued->late = 0;
    queued->next = queues->spare_charges;
    queues->spare_charges = queued;
}

/* A refund was answered, or has failed: then its units are lost. */
static void end_return(struct rn_batch_queues *queues, struct rn_late_charge *late)
{
    bool done = late->charge.error == 0;

    rn_redis_count(done ? &queues->counts->returned : &queues->counts->burnt, 1);
    if (done)
        queues->events->returned(queues->events->arg, &late->charge);
    rn_late_charges_end(late);
}

static void answer(struct rn_batch_queues *queues, struct rn_queued_charge *queued, int error)
{
    struct rn_queued_charge was = *queued;

    free_queued(queues, queued);
    if (!is_awaited(&was))
        return;
    if (error != 0)
        charge_of(&was)->error = error;
    if (!was.job->done) {
        end_return(queues, (struct rn_late_charge *)was.job);
        return;
    }
    queues->events->answered(queues->events->arg, was.job, charge_of(&was));
}

static void fail_all(struct rn_batch_queues *queues, struct rn_charge_fifo *charges)
{
    struct rn_charge_fifo taken = *charges;
    struct rn_queued_charge *queued;

    charges->first = NULL; /* callbacks may add to the queue */
    while ((queued = fifo_take(&taken)))
        answer(queues, queued, RATION_ESTORE);
}

/* --- queues with something to send ------------------------------------------------------- */

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

/* --- batches -------------------------------------------------------------------------- */

/* Drops charges whose jobs have ended. */
static void drop_unawaited(struct rn_batch *batch)
{
    struct rn_charge_fifo all = batch->charges;
    struct rn_queued_charge *queued;

    batch->charges.first = NULL;
    batch->count = 0;
    while ((queued = fifo_take(&all))) {
        if (is_awaited(queued)) {
            fifo_append(&batch->charges, queued);
            batch->count++;
        } else {
            free_queued(batch->queues, queued);
        }
    }
}

/* A batch as batch.lua reads it: the keys of the charges, the keys of their reset logs, the nonce,
 * the number of each charge's argument, and the arguments without repetition: most charges of one
 * limit have the same. */
struct message {
    char names[2 * RN_BATCH_CHARGES][RN_CODEC_NAME];
    char arguments[RN_BATCH_CHARGES][RN_CODEC_BYTES];
    char which[RN_BATCH_CHARGES]; /* the number of each charge's argument */
    char nonce[24];
    struct rn_slice words[2 + 3 * RN_BATCH_CHARGES];
    size_t keys, count; /* words that are keys; all words */
};

static void add_keys(struct message *m, const struct rn_charge_fifo *charges)
{
    for (const struct rn_queued_charge *queued = charges->first; queued; queued = queued->next) {
        char *name = m->names[m->keys];

        m->words[m->keys++] = (struct rn_slice){name, rn_codec_name(charge_of(queued), name)};
    }
    for (const struct rn_queued_charge *queued = charges->first; queued; queued = queued->next) {
        char *name = m->names[m->keys];

        if (rn_codec_uses_reset_log(charge_of(queued)))
            m->words[m->keys++] =
                (struct rn_slice){name, rn_codec_reset_log_name(charge_of(queued), name)};
    }
    m->count = m->keys;
}

static void add_arguments(struct message *m, const struct rn_batch *batch)
{
    size_t i = 0, n = 0, reset_log = batch->count;
    int len = snprintf(m->nonce, sizeof m->nonce, "%" PRIu64, batch->nonce);

    m->words[m->count++] = (struct rn_slice){m->nonce, (size_t)len};
    m->words[m->count++] = (struct rn_slice){m->which, batch->count};
    struct rn_slice *arguments = m->words + m->count;
    for (const struct rn_queued_charge *queued = batch->charges.first; queued;
         queued = queued->next, i++) {
        reset_log += rn_codec_uses_reset_log(charge_of(queued));
        arguments[n] = (struct rn_slice){
            m->arguments[n], rn_codec_write(charge_of(queued), reset_log, m->arguments[n])};
        size_t at = 0;
        while (!rn_slice_equal(arguments[at], arguments[n]))
            at++;
        m->which[i] = (char)at;
        n += at == n;
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
    add_keys(&message, &batch->charges);
    add_arguments(&message, batch);
    return rn_script_call_send(call, message.keys, message.words, message.count);
}

/* Ends a batch and returns its charges. The queue may then send the next one. */
static struct rn_charge_fifo end_batch(struct rn_batch *batch)
{
    struct rn_batch_queues *queues = batch->queues;

    *(batch->aside ? &queues->aside : &batch->queue->in_flight) -= 1;
    *batch->link = batch->next;
    if (batch->next)
        batch->next->link = batch->link;
    batch->next = queues->spare_batches;
    queues->spare_batches = batch;
    return batch->charges;
}

/* Queues the refund behind all other charges. If the server is down or the queues are full, its
 * units are lost. NULL: nothing to do. */
static void give_back(struct rn_batch_queues *queues, struct rn_late_charge *late)
{
    if (!late)
        return;
    struct rn_batch_queue *queue = queue_of(queues, &late->charge);
    const struct rn_shard *shard = rn_routes_owner(queues->calls->routes, queue->slot);
    struct rn_queued_charge *queued = shard && !shard->breaker.open ? queues->spare_charges : NULL;

    if (!queued) {
        late->charge.error = RATION_ESTORE;
        end_return(queues, late);
        return;
    }
    queues->spare_charges = queued->next;
    *queued = (struct rn_queued_charge){.job = &late->job, .life = late->job.life};
    fifo_append(&queue->behind, queued);
    make_ready(queues, queue);
}

static void on_ended(struct rn_script_call *call, const redisReply *reply)
{
    struct rn_batch *batch = (struct rn_batch *)call;
    struct rn_batch_queues *queues = batch->queues;
    struct rn_shard *shard = call->shard;
    bool is_answer = reply && reply->type != REDIS_REPLY_ERROR;
    struct rn_script_call_answers answers;
    bool whole = is_answer && rn_script_call_read(reply, batch->nonce, batch->count, &answers);
    struct rn_charge_fifo charges = end_batch(batch);
    struct rn_queued_charge *queued;

    if (is_answer && !whole)
        rn_script_call_mismatch(call);
    if (whole)
        rn_shard_has_answered(shard, answers.store_us, batch->sent_ns, rn_clock_boot_ns());
    for (; whole && (queued = fifo_take(&charges)); answers.bytes += RN_CODEC_ANSWER) {
        uint64_t late = queued->late;

        queued->late = 0;
        if (is_awaited(queued))
            rn_codec_read(charge_of(queued), answers.bytes);
        answer(queues, queued, 0);
        if (late != 0)
            give_back(queues, rn_late_charges_answer(&queues->lates, late, answers.bytes));
    }
    fail_all(queues, &charges);
    make_ready(queues, batch->queue);
    if (shard && queues->ready[shard->index].first)
        rn_link_call_later(&shard->link);
}

/* Whether two charges may share a batch while their slot migrates. The reset log of a key may not
 * be on the same server as the key: charges that do not use it need not wait for it. */
static bool go_together(const struct rn_queued_charge *a, const struct rn_queued_charge *b)
{
    const struct rn_charge *one = charge_of(a), *other = charge_of(b);

    return one->key == other->key && rn_codec_uses_reset_log(one) == rn_codec_uses_reset_log(other);
}

/* The slot migrates: from now on each batch has one key. */
static bool split_batch(struct rn_script_call *call)
{
    struct rn_batch *batch = (struct rn_batch *)call;
    struct rn_batch_queue *queue = batch->queue;
    bool several = false;

    drop_unawaited(batch);
    for (const struct rn_queued_charge *queued = batch->charges.first; queued && queued->next;
         queued = queued->next)
        several |= !go_together(queued, queued->next);
    if (!several)
        return false;
    queue->narrow_until_ns =
        rn_timing_now(batch->queues->calls->routes->loop) + RN_BATCH_QUEUE_NARROW_NS;
    struct rn_charge_fifo charges = end_batch(batch);
    fifo_put_back(&queue->waiting, &charges);
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

/* Moves the next charges from the queue to the batch. */
static void fill_batch(struct rn_batch *batch, struct rn_charge_fifo *from, bool narrow)
{
    struct rn_batch_queues *queues = batch->queues;
    struct rn_charge_fifo others = {0};
    struct rn_queued_charge *queued;

    while (batch->count < RN_BATCH_CHARGES && (queued = fifo_take(from))) {
        if (!is_awaited(queued)) {
            free_queued(queues, queued);
            continue;
        }
        if (narrow && batch->count > 0 && !go_together(queued, batch->charges.first)) {
            fifo_append(&others, queued);
            continue;
        }
        if (queues->events->is_known(queues->events->arg, charge_of(queued))) {
            answer(queues, queued, 0);
            continue;
        }
        fifo_append(&batch->charges, queued);
        batch->count++;
        if (queued->job->deadline_ns > batch->call.until_ns)
            batch->call.until_ns = queued->job->deadline_ns;
    }
    fifo_put_back(from, &others);
}

/* There must be a spare batch. Returns whether another one may follow at once: a narrow batch has
 * taken all charges of its key, so the next one has another key. */
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
        rn_redis_count(&queues->counts->calls, 1);
        rn_redis_count(&queues->counts->sizes[63 - __builtin_clzll(count)], 1);
        return narrow && count < RN_BATCH_CHARGES;
    }
    struct rn_charge_fifo charges = end_batch(batch);
    fail_all(queues, &charges);
    return false;
}

void rn_batch_queue_send(struct rn_batch_queues *queues, const struct rn_shard *shard)
{
    struct rn_batch_queue *queue;

    while (queues->spare_batches && rn_link_room(&shard->link) >= 2 &&
           (queue = take_ready(queues, shard->index))) {
        bool narrow = queue->narrow_until_ns > rn_timing_now(queues->calls->routes->loop);

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
        for (struct rn_queued_charge *queued = batch->charges.first; queued;
             queued = queued->next) {
            if (!is_awaited(queued) || !queued->job->done || queued->job->deadline_ns > now_ns)
                continue;
            queued->late = rn_late_charges_note(&queues->lates, charge_of(queued));
            charge_of(queued)->late = queued->late;
        }
}

void rn_batch_queue_disown(struct rn_batch_queues *queues, const struct rn_charge *charge,
                           uint64_t late)
{
    give_back(queues, rn_late_charges_disown(&queues->lates, late, charge));
}

/* --- start and end --------------------------------------------------------------------- */

uint16_t rn_batch_queue_slot(const struct rn_batch_queues *queues, const struct rn_charge *charge)
{
    return queue_of(queues, charge)->slot;
}

bool rn_batch_queue_add(struct rn_batch_queues *queues, struct rn_backend_job *job, size_t index)
{
    struct rn_queued_charge *queued = queues->spare_charges;

    if (!queued)
        return false;
    queues->spare_charges = queued->next;
    *queued = (struct rn_queued_charge){.job = job, .life = job->life, .index = index};
    struct rn_batch_queue *queue = queue_of(queues, charge_of(queued));
    fifo_append(&queue->waiting, queued);
    make_ready(queues, queue);
    return true;
}

bool rn_batch_queue_init(struct rn_batch_queues *queues, struct rn_script_caller *calls,
                         struct rn_redis_counts *counts, const struct rn_batch_queue_events *events)
{
    bool cluster = calls->routes->url->kind == RN_URL_CLUSTER;

    *queues = (struct rn_batch_queues){
        .calls = calls, .counts = counts, .events = events, .tags = cluster ? RN_CODEC_TAGS : 1};
    queues->queues = calloc(RN_SCRIPTS_STRICT * queues->tags, sizeof *queues->queues);
    queues->charges = calloc(RN_BATCH_QUEUE_CHARGES, sizeof *queues->charges);
    queues->batches = calloc(RN_BATCH_QUEUE_BATCHES, sizeof *queues->batches);
    if (!queues->queues || !queues->charges || !queues->batches ||
        !rn_late_charges_init(&queues->lates))
        return false;
    for (unsigned i = 0; i < RN_SCRIPTS_STRICT * queues->tags; i++) {
        queues->queues[i].script = (uint8_t)(i / queues->tags);
        queues->queues[i].slot = cluster ? rn_hash_slot_of(rn_codec_tag_name(i % queues->tags)) : 0;
    }
    for (unsigned i = 0; i < RN_BATCH_QUEUE_CHARGES; i++)
        free_queued(queues, &queues->charges[i]);
    for (unsigned i = 0; i < RN_BATCH_QUEUE_BATCHES; i++) {
        queues->batches[i].next = queues->spare_batches;
        queues->spare_batches = &queues->batches[i];
    }
    return true;
}

void rn_batch_queue_done(struct rn_batch_queues *queues)
{
    free(queues->queues);
    free(queues->charges);
    free(queues->batches);
    rn_late_charges_done(&queues->lates);
    *queues = (struct rn_batch_queues){0};
}
