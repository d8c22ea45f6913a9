/* SPDX-License-Identifier: Apache-2.0 */
#include "front/await/fiber_pool.h"

#include <stdlib.h>

#include "base/fiber.h"
#include "front/await/reply_queue.h"
#include "front/front.h"

/* What a decision needs at most, with room for sanitizers. */
#define STACK_BYTES ((size_t)1 << 20)
#define LINE_MIN 64

struct rn_pool_fiber {
    struct rn_pool_fiber *next;
    struct rn_fiber *fiber;
    struct rn_fiber_pool *turns;
    struct rn_conn *conn;
    struct rn_await_task work;

    /* Of rn_await_run. */
    rn_await_handler *talk;
    struct rn_conversation talker;
    struct rn_buf out;
    char *data;
    size_t len, used;

    struct rn_front_workspace ws;
};

/* --- turns and who waits for them ------------------------------------------------------- */

static struct rn_pool_fiber *make_turn(struct rn_front_loop *loop)
{
    struct rn_pool_fiber *turn = calloc(1, sizeof *turn);

    if (!turn)
        return NULL;
    turn->fiber = rn_fiber_new(STACK_BYTES);
    if (!turn->fiber) {
        free(turn);
        return NULL;
    }
    turn->turns = &loop->turns;
    turn->ws.counts = &loop->counts;
    loop->turns.made++;
    return turn;
}

/* NULL: all are taken, or there is no memory for another. */
static struct rn_pool_fiber *find_turn(struct rn_front *front, struct rn_front_loop *loop)
{
    struct rn_fiber_pool *turns = &loop->turns;
    bool control = loop == &front->loops[front->loop_count - 1];
    struct rn_pool_fiber *turn = turns->spare;

    if (turn)
        turns->spare = turn->next;
    else if (turns->made < (control ? 1 : RN_FIBERS_OF_WORKER))
        turn = make_turn(loop);
    turns->taken += turn != NULL;
    return turn;
}

static bool grow_line(struct rn_fiber_pool *turns)
{
    size_t room = turns->room ? 2 * turns->room : LINE_MIN;
    struct rn_fiber_waiter *line = malloc(room * sizeof *line);

    if (!line)
        return false;
    for (size_t i = 0; i < turns->waiting; i++)
        line[i] = turns->line[(turns->first + i) & (turns->room - 1)];
    free(turns->line);
    turns->line = line;
    turns->first = 0;
    turns->room = room;
    return true;
}

/* False: nobody would ever call it. */
static bool wait_in_line(struct rn_fiber_pool *turns, struct rn_fiber_waiter guest)
{
    if (turns->taken == 0 || (turns->waiting == turns->room && !grow_line(turns)))
        return false;
    turns->line[(turns->first + turns->waiting++) & (turns->room - 1)] = guest;
    return true;
}

static void leave_turn(struct rn_pool_fiber *turn)
{
    struct rn_fiber_pool *turns = turn->turns;

    turn->next = turns->spare;
    turns->spare = turn;
    turns->taken--;
}

/* A guest may have no use for its turn any more, or be done at once: then it is the
 * next one's. Whatever that ends in the course of it comes back here and finds it done. */
static void call_next(struct rn_fiber_pool *turns)
{
    if (turns->calling)
        return;
    turns->calling = true;
    while (turns->waiting > 0 && turns->spare) {
        struct rn_fiber_waiter guest = turns->line[turns->first];

        turns->first = (turns->first + 1) & (turns->room - 1);
        turns->waiting--;
        guest.begin(guest.arg);
    }
    turns->calling = false;
}

void rn_await_pool_done(struct rn_fiber_pool *turns)
{
    while (turns->spare) {
        struct rn_pool_fiber *turn = turns->spare;

        turns->spare = turn->next;
        rn_front_workspace_done(&turn->ws);
        rn_buf_done(&turn->out);
        rn_fiber_free(turn->fiber);
        free(turn);
    }
    free(turns->line);
    turns->line = NULL;
}

/* --- conversations ------------------------------------------------------------------------ */

static void run_talk(void *arg)
{
    struct rn_pool_fiber *turn = arg;

    turn->used = turn->talk(&turn->talker, turn->data, turn->len);
}

static void put_out(struct rn_pool_fiber *turn)
{
    if (turn->talker.replies) {
        rn_reply_queue_append(turn->talker.replies, &turn->out);
        return;
    }
    if (turn->out.len > 0)
        rn_buf_put(rn_conn_out(turn->conn), turn->out.data, turn->out.len);
    if (turn->out.failed)
        rn_conn_close(turn->conn);
    rn_buf_clear(&turn->out);
}

static void begin_talk(struct rn_pool_fiber *turn)
{
    struct rn_reply_queue *replies = turn->talker.replies;

    if (!replies || replies->turns++ == 0)
        turn->turns->speakers++;
}

static void leave_talk(struct rn_pool_fiber *turn)
{
    struct rn_reply_queue *replies = turn->talker.replies;

    if (!replies || --replies->turns == 0)
        turn->turns->speakers--;
    leave_turn(turn);
}

bool rn_await_may_split(const struct rn_conversation *talker)
{
    const struct rn_front *front = rn_conn_context(talker->conn);
    uint32_t speakers = rn_front_loop(front, talker->conn)->turns.speakers;

    return (talker->replies->turns + 1) * speakers <= RN_FIBERS_SHARED;
}

static void end_talk(struct rn_pool_fiber *turn)
{
    if (turn->talker.reply) {
        rn_reply_queue_finish(turn->talker.reply, &turn->out);
    } else {
        put_out(turn);
        rn_conn_consumed(turn->conn, turn->used);
    }
}

/* Those in line come first: this one may have more to say than others. */
static void talk_ended(void *arg)
{
    struct rn_pool_fiber *turn = arg;
    struct rn_fiber_pool *turns = turn->turns;
    struct rn_conversation talker = turn->talker;

    end_talk(turn);
    leave_talk(turn);
    call_next(turns);
    if (talker.reply)
        rn_reply_queue_resume(talker.replies);
    else if (!talker.holds)
        rn_conn_resume(talker.conn);
    rn_conn_unref(talker.conn);
}

static void go_on(void *arg)
{
    struct rn_conn *conn = arg;

    rn_conn_resume(conn);
    rn_conn_unref(conn);
}

/* It waits: how many bytes are nobody else's. */
static size_t leave_rest(struct rn_pool_fiber *turn)
{
    struct rn_conversation *talker = &turn->talker;

    if (talker->rest)
        talker->reply = rn_reply_queue_add(talker->replies, &turn->out);
    if (!talker->reply) {
        talker->waited = true;
        rn_conn_pause(talker->conn);
        return RN_CONN_PENDING;
    }
    talker->replies->again = true;
    return (size_t)(talker->rest - turn->data);
}

static size_t talk_on(struct rn_pool_fiber *turn, const struct rn_conversation *talker,
                      rn_await_handler *talk, char *data, size_t len)
{
    turn->conn = talker->conn;
    turn->talk = talk;
    turn->talker = *talker;
    turn->talker.ws = &turn->ws;
    turn->talker.out = &turn->out;
    turn->talker.behind = talker->replies && talker->replies->open > 0;
    turn->talker.waits = true;
    turn->data = data;
    turn->len = len;
    begin_talk(turn);
    if (rn_fiber_run(turn->fiber, run_talk, talk_ended, turn)) {
        put_out(turn);
        leave_talk(turn);
        return turn->used;
    }
    rn_conn_ref(talker->conn);
    return leave_rest(turn);
}

size_t rn_await_run(struct rn_conn *conn, struct rn_reply_queue *replies, rn_await_handler *talk,
                    char *data, size_t len)
{
    struct rn_front *front = rn_conn_context(conn);
    struct rn_front_loop *loop = rn_front_loop(front, conn);
    struct rn_conversation talker = {.conn = conn, .replies = replies, .ws = &loop->ws};
    struct rn_pool_fiber *turn = front->patience_ns > 0 ? find_turn(front, loop) : NULL;

    if (turn)
        return talk_on(turn, &talker, talk, data, len);
    if (front->patience_ns > 0 &&
        wait_in_line(&loop->turns, (struct rn_fiber_waiter){go_on, conn})) {
        rn_conn_ref(conn);
        rn_conn_pause(conn);
        return 0;
    }
    if (replies && replies->open > 0) { /* there is no memory to wait in */
        replies->alone = true;
        (void)rn_reply_queue_pause(replies);
        return 0;
    }
    talker.out = rn_conn_out(conn);
    return talk(&talker, data, len);
}

/* --- other work --------------------------------------------------------------------------- */

struct errand {
    struct rn_front *front;
    struct rn_front_loop *loop;
    struct rn_conn *conn; /* NULL: nobody's */
    struct rn_await_task work;
};

static void keep(struct rn_conn *conn)
{
    if (conn)
        rn_conn_ref(conn);
}

static void let_go(struct rn_conn *conn)
{
    if (conn)
        rn_conn_unref(conn);
}

static void run_work(void *arg)
{
    struct rn_pool_fiber *turn = arg;

    turn->work.work(turn->work.arg, &turn->ws);
}

static void work_ended(void *arg)
{
    struct rn_pool_fiber *turn = arg;
    struct rn_conn *conn = turn->conn;
    struct rn_await_task work = turn->work;

    leave_turn(turn);
    work.ended(work.arg);
    let_go(conn);
    call_next(turn->turns);
}

static void work_on(struct rn_pool_fiber *turn, const struct errand *errand)
{
    turn->conn = errand->conn;
    turn->work = errand->work;
    keep(errand->conn);
    if (rn_fiber_run(turn->fiber, run_work, work_ended, turn))
        work_ended(turn);
}

static void run_errand(const struct errand *errand);

static void begin_errand(void *arg)
{
    struct errand errand = *(struct errand *)arg;

    free(arg);
    run_errand(&errand);
    let_go(errand.conn);
}

/* False: there is no way to wait. */
static bool put_off(const struct errand *errand)
{
    struct errand *later = malloc(sizeof *later);

    if (!later)
        return false;
    *later = *errand;
    if (!wait_in_line(&errand->loop->turns, (struct rn_fiber_waiter){begin_errand, later})) {
        free(later);
        return false;
    }
    keep(errand->conn);
    return true;
}

static void run_errand(const struct errand *errand)
{
    bool waits = errand->front->patience_ns > 0;
    struct rn_pool_fiber *turn = waits ? find_turn(errand->front, errand->loop) : NULL;

    if (turn) {
        work_on(turn, errand);
    } else if (!waits || !put_off(errand)) {
        errand->work.work(errand->work.arg, &errand->loop->ws);
        errand->work.ended(errand->work.arg);
    }
}

void rn_await_run_task(struct rn_conn *conn, const struct rn_await_task *work)
{
    struct rn_front *front = rn_conn_context(conn);

    run_errand(&(struct errand){front, rn_front_loop(front, conn), conn, *work});
}

void rn_await_run_detached(const struct rn_conn *conn, const struct rn_await_task *work)
{
    struct rn_front *front = rn_conn_context(conn);

    run_errand(&(struct errand){front, rn_front_loop(front, conn), NULL, *work});
}

/* --- time ----------------------------------------------------------------------------------- */

void rn_await_set_deadline(const struct rn_front *front, const struct rn_conn *conn)
{
    if (front->patience_ns > 0)
        rn_fiber_set_deadline(rn_wheel_now(rn_conn_wheel(conn)) + front->patience_ns);
}

bool rn_await_control_is_busy(const struct rn_front *front)
{
    return front->loops[front->loop_count - 1].turns.taken > 0;
}
