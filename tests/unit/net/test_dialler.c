/* SPDX-License-Identifier: Apache-2.0 */
/* Outgoing connections: to our own echo, to a closed port, to a silent server. */
#include "net/dialler.h"

#include "net/loop.h"

#include "echo.h"

/* What a worker does first, and what it then hears. */
struct caller {
    struct running r;
    char to[RN_ADDRESS_TEXT];
    struct rn_dialler *dialler;
    int wishes;    /* how often `before_sleep` is asked for when it has opened */
    bool hangs_up; /* at the first word, unread */
    _Atomic int opened, closed, later, error, left;
    _Atomic bool tried;
    char heard[256];
    _Atomic size_t heard_len;
};

static void caller_opened(struct rn_conn *conn)
{
    struct caller *c = rn_conn_context(conn);

    c->opened++;
    rn_buf_put_literal(rn_conn_out(conn), "hello\n");
    for (int i = 0; i < c->wishes; i++)
        rn_conn_call_before_sleep(conn);
}

static size_t caller_received(struct rn_conn *conn, char *data, size_t len)
{
    struct caller *c = rn_conn_context(conn);

    if (c->hangs_up) {
        rn_conn_close(conn);
        return 0;
    }
    assert_true(c->heard_len + len < sizeof c->heard);
    memcpy(c->heard + c->heard_len, data, len);
    c->heard_len += len;
    return len;
}

static void caller_before_sleep(struct rn_conn *conn)
{
    ((struct caller *)rn_conn_context(conn))->later++;
    rn_buf_put_literal(rn_conn_out(conn), "later\n");
}

static void caller_closed(struct rn_conn *conn)
{
    ((struct caller *)rn_conn_context(conn))->closed++;
}

static const struct rn_protocol caller_protocol = {.name = "caller",
                                                   .message_max = 64,
                                                   .opened = caller_opened,
                                                   .received = caller_received,
                                                   .closed = caller_closed,
                                                   .before_sleep = caller_before_sleep};

static void call(void *arg, struct rn_loop *loop)
{
    struct caller *c = arg;
    struct rn_address to;

    if (rn_loop_index(loop) != 0)
        return;
    c->dialler = rn_dialler_new(loop, "caller", &caller_protocol, c);
    assert_non_null(c->dialler);
    assert_int_equal(rn_address_parse(c->to, &to, NULL), 0);
    if (!rn_dialler_connect(c->dialler, &to))
        c->error = errno;
    c->tried = true;
}

/* What there is of our connections when a worker may free their dialler. */
static void count_left(void *arg, struct rn_loop *loop)
{
    struct caller *c = arg;

    for (const struct rn_conn *conn = loop->conns; conn; conn = conn->next)
        c->left += conn->outgoing;
}

static void start_caller(struct caller *c, const char *to)
{
    prepare_server(&c->r, (struct rn_server_options){0});
    listen_on(&c->r, "tcp", "127.0.0.1:0");
    snprintf(c->to, sizeof c->to, "%s", to ? to : rn_server_address(c->r.server, "tcp"));
    c->r.calls.arg = c; /* the first member is the running server */
    c->r.calls.worker_begins = call;
    c->r.calls.worker_ends = count_left;
    start_server(&c->r);
    wait_for(c->tried);
}

static void stop_caller(struct caller *c)
{
    stop_server(&c->r);
    rn_dialler_free(c->dialler);
}

static void an_accepted_connection_sends_and_receives(void **state)
{
    struct caller c = {0};

    (void)state;
    start_caller(&c, NULL);
    wait_for(c.heard_len == 6);
    assert_memory_equal(c.heard, "hello\n", 6);
    assert_int_equal(c.opened, 1);
    stop_caller(&c);
    assert_int_equal(c.closed, 1);
}

static void before_sleep_is_called_once_however_often_it_was_asked_for(void **state)
{
    struct caller c = {.wishes = 3};

    (void)state;
    start_caller(&c, NULL);
    wait_for(c.heard_len == 12);
    assert_memory_equal(c.heard, "hello\nlater\n", 12);
    assert_int_equal(c.later, 1);
    stop_caller(&c);
}

/* A port that was free a moment ago. */
static void a_refused_connection_is_reported_as_closed(void **state)
{
    struct caller c = {0};
    struct running gone;
    char address[RN_ADDRESS_TEXT];

    (void)state;
    start_echo(&gone, (struct rn_server_options){0});
    snprintf(address, sizeof address, "%s", rn_server_address(gone.server, "tcp"));
    stop_server(&gone);
    start_caller(&c, address);
    wait_for(c.closed == 1 || c.error != 0);
    assert_int_equal(c.opened, 0);
    stop_caller(&c);
}

static void a_socket_that_is_not_there_fails_at_once(void **state)
{
    struct caller c = {0};

    (void)state;
    start_caller(&c, "unix:/nowhere/at/all");
    assert_int_equal(c.error, ENOENT);
    assert_int_equal(c.closed, 0);
    stop_caller(&c);
}

/* The other side does not end the connection, whatever it hears. */
static void a_connection_reported_as_closed_leaves_nothing(void **state)
{
    struct caller c = {.hangs_up = true};
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof here;
    int silent = socket(AF_INET, SOCK_STREAM, 0);
    char address[32];

    (void)state;
    assert_int_equal(bind(silent, (struct sockaddr *)&here, len), 0);
    assert_int_equal(listen(silent, 4), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)&here, &len), 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(here.sin_port));
    start_caller(&c, address);
    int peer = accept(silent, NULL, NULL);
    assert_int_equal(write(peer, "hello\n", 6), 6);
    wait_for(c.closed == 1);
    stop_caller(&c);
    assert_int_equal(c.left, 0);
    close(peer);
    close(silent);
}

static void a_drain_does_not_wait_for_outgoing_connections(void **state)
{
    struct caller c = {0};
    char path[] = "/tmp/ration-dial-XXXXXX", address[64];
    struct sockaddr_un un = {.sun_family = AF_UNIX};

    (void)state;
    assert_non_null(mkdtemp(path));
    snprintf(un.sun_path, sizeof un.sun_path, "%s/s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(listen(fd, 1), 0);
    snprintf(address, sizeof address, "unix:%.50s", un.sun_path);
    start_caller(&c, address);
    wait_for(c.opened == 1);
    assert_int_equal(counts_of(&c.r, "tcp").open, 0); /* nor is it counted with accepted ones */
    stop_caller(&c);
    assert_int_equal(c.closed, 1);
    close(fd);
    unlink(un.sun_path);
    rmdir(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_accepted_connection_sends_and_receives),
        cmocka_unit_test(before_sleep_is_called_once_however_often_it_was_asked_for),
        cmocka_unit_test(a_refused_connection_is_reported_as_closed),
        cmocka_unit_test(a_socket_that_is_not_there_fails_at_once),
        cmocka_unit_test(a_connection_reported_as_closed_leaves_nothing),
        cmocka_unit_test(a_drain_does_not_wait_for_outgoing_connections),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
