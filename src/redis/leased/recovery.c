/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives back the unspent units of killed workers, as recorded in the lease file
 * (redis/leased/lease_file.h): at the start, and whenever another process on the same file has
 * died. Each record is taken out before its call is sent, so that none is returned twice; the units
 * of a lost call are lost.
 */
#include <stdio.h>

#include "net/log.h"
#include "redis/leased/leased_internal.h"
#include "redis/timing.h"

#define MS INT64_C(1000000)
#define SOON_NS (20 * MS)   /* after a call that could not be sent */
#define LOOK_NS (1000 * MS) /* between searches for dead workers; after a call that was not run */

static void end_part(struct rn_leased *leased)
{
    struct rn_recovery *r = &leased->recovery;

    rn_lease_file_close(&r->part);
    rn_log(RN_LOG_INFO, "leases.recovered", RN_LOG_NUMBER("keys", r->keys),
           RN_LOG_NUMBER("units", r->units));
    r->keys = r->units = 0;
    rn_timing_in(leased->loop, &leased->recovery.timer, 0);
}

static bool on_returned(void *arg, const redisReply *reply)
{
    struct rn_recovery_call *call = arg;
    struct rn_leased *leased = call->leased;
    struct rn_recovery *r = &leased->recovery;
    struct rn_script_call_answers answers;
    int64_t n[RN_CODEC_NUMBERS] = {0};
    bool read = reply && rn_script_call_read(reply, call->nonce, 1, &answers);

    call->busy = false;
    if (!rn_leased_goes_on(leased))
        return true;
    r->asked--;
    if (reply && reply->type == REDIS_REPLY_ERROR) { /* not run */
        rn_lease_file_put_back(&r->part.records[call->index], &call->record);
        r->next = 0;
    } else if (read) {
        rn_codec_numbers(answers.bytes, RN_CODEC_NUMBERS, n);
        r->units += n[0] > 0 ? (uint64_t)n[0] : 0;
        rn_redis_count(&leased->counts.recovered, n[0] > 0 ? (uint64_t)n[0] : 0);
        r->keys++;
    }
    if (!leased->stopping && !rn_timer_is_set(&r->timer))
        rn_timing_in(leased->loop, &leased->recovery.timer,
                     reply && reply->type == REDIS_REPLY_ERROR ? LOOK_NS : 0);
    return read;
}

static bool send_return(struct rn_leased *leased, struct rn_recovery_call *call)
{
    const struct rn_lease_record *record = &call->record;
    const struct rn_codec_lease_request request = {.holder = leased->recovery.part.holder,
                                                   .call = record->call,
                                                   .back = record->units,
                                                   .known = record->known,
                                                   .mark = record->mark,
                                                   .ends_us = record->ends_us};
    char nonce[24], argument[RN_CODEC_BYTES], reset[RN_CODEC_NAME];

    call->nonce = ++leased->calls;
    const struct rn_slice name = {record->name, record->name_len};
    const struct rn_slice keys[] = {name, {reset, rn_codec_reset_log_of(name, reset)}};
    const struct rn_slice args[] = {
        {nonce, (size_t)snprintf(nonce, sizeof nonce, "%llu", (unsigned long long)call->nonce)},
        {"\0", 1},
        {argument, rn_codec_write_return(&request, record->params, record->params_len, argument)},
    };
    const struct rn_script_request ask = {.script = (enum rn_script)record->script,
                                          .keys = keys,
                                          .key_count = 2,
                                          .args = args,
                                          .arg_count = 3,
                                          .reply = on_returned,
                                          .arg = call};

    return rn_redis_call(leased->redis, &ask);
}

/* False: the server of the next record is down. */
static bool return_some(struct rn_leased *leased)
{
    struct rn_recovery *r = &leased->recovery;
    struct rn_recovery_call *call;

    for (; r->next < RN_LEASE_FILE_RECORDS && r->asked < RN_RECOVERY_CALLS; r->next++) {
        for (call = r->calls; call->busy;)
            call++;
        struct rn_lease_record *record = &r->part.records[r->next];

        if (record->state == RN_RECORD_EMPTY ||
            !rn_lease_file_take(record, r->part.holder, &call->record))
            continue;
        call->leased = leased;
        call->index = r->next;
        if (!send_return(leased, call)) {
            rn_lease_file_put_back(record, &call->record);
            return false;
        }
        call->busy = true;
        r->asked++;
        leased->in_flight++;
    }
    return true;
}

static void on_timer(struct rn_timer *timer)
{
    struct rn_leased *leased =
        (struct rn_leased *)((char *)timer - offsetof(struct rn_leased, recovery.timer));
    struct rn_recovery *r = &leased->recovery;

    if (!r->part.records) {
        r->next = 0;
        if (!rn_lease_file_find(leased->path, &r->part)) {
            rn_timing_in(leased->loop, &leased->recovery.timer, LOOK_NS);
            return;
        }
    }
    if (!return_some(leased))
        rn_timing_in(leased->loop, &leased->recovery.timer, SOON_NS);
    else if (r->next == RN_LEASE_FILE_RECORDS && r->asked == 0)
        end_part(leased);
}

void rn_recovery_begin(struct rn_leased *leased)
{
    leased->recovery.timer.fire = on_timer;
    if (leased->path)
        rn_timing_in(leased->loop, &leased->recovery.timer, 0);
}

void rn_recovery_end(struct rn_leased *leased)
{
    rn_lease_file_close(&leased->recovery.part);
}
