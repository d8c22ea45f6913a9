/* SPDX-License-Identifier: Apache-2.0 */
#include "nginx/link.h"

#include "nginx/module.h"
#include "nginx/tls.h"
#include "wire/resp_reply.h"

#define WAIT_MIN_MS 50
#define WAIT_MAX_MS 5000
#define GREETING_MS 1000 /* for a connection, its TLS and its PONG */
#define MISSES_MAX 5
#define READ_BYTES 16384
#define OUT_MAX_BYTES ((size_t)1 << 20)
#define LATER_MAX 1024 /* commands */

#define PING RN_SLICE("*1\r\n$4\r\nPING\r\n")
#define LEAVE RN_SLICE("*2\r\n$12\r\nRATION.LEAVE\r\n$1\r\n0\r\n")

/* --- the end of a connection ------------------------------------------------------------ */

static void close_connection(struct rn_ngx_link *link)
{
    if (link->again.timer_set)
        ngx_del_timer(&link->again);
    if (link->flush.posted) {
        ngx_delete_posted_event(&link->flush);
    }
    if (link->peer.connection)
        rn_ngx_tls_close(link->peer.connection);
    link->peer.connection = NULL;
    link->open = false;
    link->server->up -= link->state == RN_NGX_UP;
    link->state = RN_NGX_WAITING;
    link->hopeful = false;
}

static bool take_reply(struct rn_ngx_link *link, struct rn_slice reply)
{
    if (link->first == link->next)
        return false;
    uint64_t at = link->first++ % RN_NGX_OWED;

    return !link->owed[at].on_reply || link->owed[at].on_reply(link, link->owed[at].arg, reply);
}

/* Callbacks run last: they may find that nothing can be asked. Those in line were asked about
 * before the others. */
static void lose(struct rn_ngx_link *link, struct rn_ngx_loss loss)
{
    ngx_msec_t last = link->wait_ms > WAIT_MIN_MS ? link->wait_ms : WAIT_MIN_MS;
    ngx_msec_t most = 3 * last < WAIT_MAX_MS ? 3 * last : WAIT_MAX_MS;

    close_connection(link);
    rn_buf_clear(&link->in);
    rn_buf_clear(&link->out);
    link->sent = 0;
    rn_ngx_server_lost(link->server, link->log, &loss);
    /* At random, so that workers do not connect all at once. */
    link->wait_ms = WAIT_MIN_MS + (ngx_msec_t)ngx_random() % (most - WAIT_MIN_MS + 1);
    ngx_add_timer(&link->again, link->wait_ms);
    rn_ngx_rationd_line_lost(link);
    while (link->first != link->next)
        (void)take_reply(link, (struct rn_slice){NULL, 0});
}

static void drop(struct rn_ngx_link *link, const char *why, ngx_err_t error)
{
    lose(link, (struct rn_ngx_loss){.why = why, .error = error});
}

void rn_ngx_link_missed(struct rn_ngx_link *link)
{
    link->hopeful = false;
    if (link->state == RN_NGX_UP && ++link->misses >= MISSES_MAX)
        drop(link, "does not answer in time", 0);
}

/* --- out ------------------------------------------------------------------------------------ */

static void send_out(struct rn_ngx_link *link)
{
    ngx_connection_t *connection = link->peer.connection;

    while (link->sent < link->out.len) {
        ssize_t n = connection->send(connection, (u_char *)link->out.data + link->sent,
                                     link->out.len - link->sent);

        if (n == NGX_AGAIN || n == 0)
            break;
        if (n < 0) {
            drop(link, "cannot be reached", ngx_socket_errno);
            return;
        }
        link->sent += (size_t)n;
    }
    if (link->sent == link->out.len) {
        rn_buf_clear(&link->out);
        link->sent = 0;
    }
    if (ngx_handle_write_event(connection->write, 0) != NGX_OK)
        drop(link, "cannot be written to", 0);
}

static void on_flush(ngx_event_t *event)
{
    struct rn_ngx_link *link = event->data;

    if (link->open && link->peer.connection->write->ready)
        send_out(link);
}

static void on_write(ngx_event_t *event)
{
    ngx_connection_t *connection = event->data;

    send_out(connection->data);
}

bool rn_ngx_link_can_ask(const struct rn_ngx_link *link)
{
    return (link->state == RN_NGX_UP || (link->state == RN_NGX_GREETING && link->hopeful)) &&
           rn_ngx_link_owed(link) < RN_NGX_OWED && link->out.len < OUT_MAX_BYTES;
}

static uint64_t push(struct rn_ngx_link *link, struct rn_slice command, rn_ngx_on_reply *on_reply,
                     void *arg)
{
    size_t before = link->out.len;
    uint64_t at = link->next % RN_NGX_OWED;

    rn_buf_put_slice(&link->out, command);
    if (link->out.failed) {
        link->out.len = before;
        link->out.failed = false;
        return 0;
    }
    link->owed[at].on_reply = on_reply;
    link->owed[at].arg = arg;
    ngx_post_event(&link->flush, &ngx_posted_events);
    return link->next++;
}

uint64_t rn_ngx_link_send(struct rn_ngx_link *link, struct rn_slice command,
                          rn_ngx_on_reply *on_reply, void *arg)
{
    return rn_ngx_link_can_ask(link) ? push(link, command, on_reply, arg) : 0;
}

void rn_ngx_link_forget(struct rn_ngx_link *link, uint64_t number, rn_ngx_on_reply *instead)
{
    uint64_t at = number % RN_NGX_OWED;

    if (number - link->first >= rn_ngx_link_owed(link))
        return;
    link->owed[at].on_reply = instead;
    link->owed[at].arg = NULL;
}

/* --- commands whose replies are ignored ---------------------------------------------------- */

void rn_ngx_link_send_sometime(struct rn_ngx_link *link, struct rn_slice command)
{
    if (rn_ngx_link_send(link, command, NULL, NULL) != 0 || link->later_count == LATER_MAX)
        return;
    size_t before = link->later.len;

    rn_buf_put_slice(&link->later, command);
    if (link->later.failed)
        link->later.len = before;
    else
        link->later_count++;
    link->later.failed = false;
}

/* --- in -------------------------------------------------------------------------------------- */

/* The text of the error may quote the password: do not log it. */
static bool on_auth(struct rn_ngx_link *link, void *arg, struct rn_slice reply)
{
    (void)arg;
    if (!reply.data || rn_slice_is(reply, "+OK\r\n"))
        return true;
    if (reply.data[0] == '-')
        link->denial = "refuses the password of password_file=";
    return false;
}

/* Then sends what had to wait, with one write to the buffer, but one outstanding reply for each
 * command. */
static bool on_pong(struct rn_ngx_link *link, void *arg, struct rn_slice reply)
{
    struct rn_slice later = rn_buf_slice(&link->later);

    (void)arg;
    if (!reply.data)
        return true;
    if (rn_slice_starts_with(reply, RN_SLICE("-NOAUTH")))
        link->denial = "wants a password; name its file with password_file=";
    if (!rn_slice_is(reply, "+PONG\r\n"))
        return false;
    ngx_del_timer(&link->again);
    link->state = RN_NGX_UP;
    link->misses = 0;
    link->logged_error = false;
    rn_ngx_server_found(link->server, link->log);
    for (; link->later_count > 0 && rn_ngx_link_can_ask(link); link->later_count--) {
        if (push(link, later, NULL, NULL) == 0)
            return true;
        later.len = 0;
    }
    rn_buf_clear(&link->later);
    link->later_count = 0;
    return true;
}

/* Takes all complete replies. False: the connection was closed. */
static bool take_replies(struct rn_ngx_link *link)
{
    size_t done = 0;

    while (done < link->in.len) {
        size_t end = done;
        enum rn_parse answer = rn_resp_reply_skip(link->in.data, link->in.len, &end);

        if (answer == RN_PARSE_MORE)
            break;
        struct rn_slice reply = {link->in.data + done, end - done};

        if (answer == RN_PARSE_BAD || !(reply.data[0] == '>' ? rn_ngx_rationd_line_turn(link, reply)
                                                             : take_reply(link, reply))) {
            lose(link, (struct rn_ngx_loss){.why = link->denial ? link->denial
                                                                : "sent what is not a reply",
                                            .lasting = link->denial != NULL});
            return false;
        }
        done = end;
    }
    rn_buf_drop(&link->in, done);
    return true;
}

/* A server that wants a client certificate closes the connection only after the handshake. */
static void end_of_read(struct rn_ngx_link *link, const char *why, ngx_err_t error)
{
    if (link->server->tls && link->state == RN_NGX_GREETING)
        lose(link, (struct rn_ngx_loss){.why = "closed the connection after the handshake; it may "
                                               "want a client certificate (ssl_certificate=)",
                                        .lasting = true});
    else
        drop(link, why, error);
}

static void on_read(ngx_event_t *event)
{
    ngx_connection_t *connection = event->data;
    struct rn_ngx_link *link = connection->data;

    for (;;) {
        char *room = rn_buf_reserve(&link->in, READ_BYTES);
        ssize_t n = room ? connection->recv(connection, (u_char *)room, READ_BYTES) : NGX_ERROR;

        if (n == NGX_AGAIN)
            break;
        if (n == 0) {
            end_of_read(link, "has closed the connection", 0);
            return;
        }
        if (n < 0) {
            end_of_read(link, "cannot be reached", room ? ngx_socket_errno : NGX_ENOMEM);
            return;
        }
        link->in.len += (size_t)n;
        if (!take_replies(link))
            return;
    }
    if (ngx_handle_read_event(event, 0) != NGX_OK)
        drop(link, "cannot be read from", 0);
}

/* --- attempts -------------------------------------------------------------------------------- */

static void open_for_commands(struct rn_ngx_link *link, ngx_connection_t *connection)
{
    connection->read->handler = on_read;
    connection->write->handler = on_write;
    link->open = true;
}

/* OpenSSL may have read replies together with the handshake: no event would announce them. */
static void on_handshake(ngx_connection_t *connection)
{
    struct rn_ngx_link *link = connection->data;
    char why[RN_NGX_TLS_FAULT_SIZE];

    if (rn_ngx_tls_failed(link->server->tls, connection, why)) {
        lose(link, (struct rn_ngx_loss){.why = why, .lasting = true});
        return;
    }
    open_for_commands(link, connection);
    on_read(connection->read);
    if (link->open)
        send_out(link);
}

static void on_connected(ngx_event_t *event)
{
    ngx_connection_t *connection = event->data;
    struct rn_ngx_link *link = connection->data;
    int error = 0;
    socklen_t len = sizeof error;

    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = ngx_socket_errno;
    if (error != 0)
        drop(link, "cannot be reached", error);
    else
        rn_ngx_tls_begin(link->server->tls, connection, on_handshake);
}

/* AUTH and PING wait in the buffer until TLS has verified the server. */
static void attempt(struct rn_ngx_link *link)
{
    ngx_addr_t *address = &link->server->addresses[link->attempts++ % link->server->address_count];
    struct rn_slice password = rn_ngx_slice(link->server->password);
    ngx_connection_t *connection;

    link->peer = (ngx_peer_connection_t){.sockaddr = address->sockaddr,
                                         .socklen = address->socklen,
                                         .name = &address->name,
                                         .get = ngx_event_get_peer,
                                         .log = &link->quiet,
                                         .log_error = NGX_ERROR_ERR};
    link->state = RN_NGX_GREETING;
    link->denial = NULL;
    ngx_int_t code = ngx_event_connect_peer(&link->peer);

    if (code != NGX_OK && code != NGX_AGAIN) {
        drop(link, "cannot be reached", ngx_socket_errno);
        return;
    }
    connection = link->peer.connection;
    connection->data = link;
    ngx_add_timer(&link->again, GREETING_MS);
    if (address->sockaddr->sa_family != AF_UNIX && ngx_tcp_nodelay(connection) != NGX_OK) {
        drop(link, "cannot be asked without delay", 0);
        return;
    }
    connection->read->handler = connection->write->handler = on_connected;
    if (!link->server->tls)
        open_for_commands(link, connection);
    if ((password.len != 0 && push(link, password, on_auth, NULL) == 0) ||
        push(link, PING, on_pong, NULL) == 0 ||
        push(link, LEAVE, rn_ngx_rationd_line_known, NULL) == 0)
        drop(link, "cannot be asked", NGX_ENOMEM);
    else if (link->server->tls && code == NGX_OK)
        on_connected(connection->write);
}

static void on_again(ngx_event_t *event)
{
    struct rn_ngx_link *link = event->data;

    if (link->state == RN_NGX_GREETING)
        drop(link, "does not answer in time", 0);
    else
        attempt(link);
}

void rn_ngx_link_open(struct rn_ngx_link *link)
{
    link->first = link->next = 1; /* 0 means "not sent" */
    rn_ngx_rationd_line_init(link);
    link->quiet = *link->log;
    link->quiet.log_level = NGX_LOG_EMERG;
    link->again.handler = on_again;
    link->again.cancelable = 1; /* must not keep a worker alive */
    link->flush.handler = on_flush;
    link->again.data = link->flush.data = link;
    link->again.log = link->flush.log = link->log;
    link->hopeful = true;
    attempt(link);
}

void rn_ngx_link_close(struct rn_ngx_link *link)
{
    ngx_connection_t *connection = link->peer.connection;

    if (link->open && connection->write->ready && link->out.len > link->sent)
        (void)connection->send(connection, (u_char *)link->out.data + link->sent,
                               link->out.len - link->sent);
    close_connection(link);
    rn_buf_done(&link->in);
    rn_buf_done(&link->out);
    rn_buf_done(&link->later);
}
