/* SPDX-License-Identifier: Apache-2.0 */
#include "front/front.h"

#include <stdlib.h>

#include "base/clock.h"
#include "front/admin/timeline.h"
#include "front/await/held_request.h"
#include "front/await/reply_queue.h"
#include "front/grpc/grpc_internal.h"

#define MEMORY_NS (INT64_C(10) * RN_SECOND_NS)

int rn_front_init(struct rn_front *front, struct ration *limiter, struct rn_server *server)
{
    size_t count = rn_server_workers(server) + 1;

    front->limiter = limiter;
    front->server = server;
    front->started_ns = rn_clock_read_ns(CLOCK_REALTIME);
    front->bans_since_ns = ration_now(limiter);
    if (!rn_token_guard_init(&front->guard) ||
        pthread_mutex_init(&front->published.lock, NULL) != 0)
        return RATION_EIO;
    front->loops = aligned_alloc(_Alignof(struct rn_front_loop), count * sizeof *front->loops);
    if (!front->loops)
        return RATION_ENOMEM;
    front->timeline = rn_timeline_new(limiter, rn_clock_boot_ns(), rn_clock_wall_ns());
    if (!front->timeline)
        return RATION_ENOMEM;
    front->loop_count = (unsigned)count;
    memset(front->loops, 0, count * sizeof *front->loops);
    for (size_t i = 0; i < count; i++)
        front->loops[i].ws.counts = &front->loops[i].counts;
    return 0;
}

void rn_front_workspace_done(struct rn_front_workspace *ws)
{
    rn_buf_done(&ws->scratch);
    rn_buf_done(&ws->body);
}

void rn_front_done(struct rn_front *front)
{
    for (unsigned i = 0; i < front->loop_count; i++) {
        rn_front_workspace_done(&front->loops[i].ws);
        rn_await_pool_done(&front->loops[i].pool);
        rn_await_turns_free(&front->loops[i].turns);
        rn_grpc_free_spares(&front->loops[i]);
        rn_reply_queue_free_spares(&front->loops[i]);
        rn_held_request_free_spares(&front->loops[i]);
    }
    for (size_t i = 0; i < RN_PUBLISH_FORMATS; i++)
        rn_buf_done(&front->published.texts[i]);
    pthread_mutex_destroy(&front->published.lock);
    rn_timeline_free(front->timeline);
    front->timeline = NULL;
    rn_buf_done(&front->rules_text);
    rn_version_list_done(&front->versions);
    rn_token_guard_done(&front->guard);
    free(front->loops);
    front->loops = NULL;
    front->loop_count = 0;
}

const struct ration_memory *rn_front_memory(struct rn_front *front, int64_t share)
{
    int64_t began_ns = rn_clock_read_ns(CLOCK_MONOTONIC);
    int64_t rest_ns = front->memory_took_ns * share;

    if (front->memory_counted_ns != 0 &&
        began_ns - front->memory_counted_ns < (rest_ns > MEMORY_NS ? rest_ns : MEMORY_NS))
        return &front->memory;
    ration_memory(front->limiter, ration_now(front->limiter), &front->memory);
    front->memory_counted_ns = began_ns;
    front->memory_took_ns = rn_clock_read_ns(CLOCK_MONOTONIC) - began_ns;
    return &front->memory;
}
