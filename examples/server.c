/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Embedding libration in a threaded server: four threads answer HTTP/1.1 on
 * loopback. Every request is charged to its client's address and, if it
 * carries one, to its API key (which a real server would look up before it
 * trusts it): to both or to neither. All threads share one limiter.
 *
 *     build/examples/server [PORT]        default 8080; 0 picks a free port
 *     curl -i -H 'X-Api-Key: alice' http://127.0.0.1:8080/
 */
#define _POSIX_C_SOURCE 200809L

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ration/ration.h>

#define SECOND_NS INT64_C(1000000000)

enum { THREADS = 4, HEAD_MAX = 8192 };
enum { BY_ADDRESS, BY_API_KEY, LIMITS };

/* As text: "20 per second burst 40" and "100 per minute". */
static const struct ration_named limits[LIMITS] = {
    [BY_ADDRESS] = {"address", {.amount = 20, .period_ns = SECOND_NS, .burst = 40}, 0},
    [BY_API_KEY] = {"api_key", {.amount = 100, .period_ns = 60 * SECOND_NS}, 0},
};

struct server {
    struct ration *limiter;
    int listener;
    int stop[2]; /* a pipe, closed for writing when the server is to stop */
};

struct client {
    int fd;
    struct sockaddr_in peer;
    char head[HEAD_MAX + 1]; /* of the request; its body is not read */
};

/* False after timeout_ms (-1: never), or when the server is to stop. */
static bool wait_readable(const struct server *s, int fd, int64_t timeout_ms)
{
    struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = s->stop[0], .events = POLLIN}};

    return poll(p, 2, (int)timeout_ms) > 0 && p[1].revents == 0;
}

/* Reads up to the blank line and ends the text there. False if none came in time. */
static bool read_head(const struct server *s, struct client *c)
{
    int64_t deadline_ns = ration_now(s->limiter) + 5 * SECOND_NS;
    char *end = NULL;

    for (size_t len = 0; !end;) {
        int64_t left_ms = (deadline_ns - ration_now(s->limiter)) / 1000000;
        if (left_ms <= 0 || !wait_readable(s, c->fd, left_ms))
            return false;
        ssize_t got = recv(c->fd, c->head + len, HEAD_MAX - len, 0);
        if (got <= 0)
            return false; /* it left, or sent too much */
        len += (size_t)got;
        c->head[len] = '\0';
        end = strstr(c->head, "\r\n\r\n");
    }
    end[2] = '\0';
    return strstr(c->head, " HTTP/1.") != NULL;
}

/* Length of the API key, which is borrowed from the head; 0 if there is none. */
static size_t find_api_key(const char *head, const char **key)
{
    static const char name[] = "\r\nX-Api-Key:";

    for (; (head = strchr(head, '\r')) != NULL; head++)
        if (strncasecmp(head, name, strlen(name)) == 0) {
            *key = head + strlen(name) + strspn(head + strlen(name), " \t");
            return strcspn(*key, " \t\r");
        }
    return 0;
}

/* Charges every limit that applies, or none. Returns the name of the one that decided. */
static const char *decide(const struct server *s, const struct client *c, int64_t now_ns,
                          struct ration_decision *d)
{
    const char *key = NULL;
    size_t key_len = find_api_key(c->head, &key);
    struct ration_charge charges[LIMITS] = {
        {.limit = BY_ADDRESS, .key = &c->peer.sin_addr, .key_len = 4, .cost = 1},
        {.limit = BY_API_KEY, .key = key, .key_len = key_len, .cost = 1},
    };

    /* If the limiter cannot decide, this server would rather serve than not. */
    *d = (struct ration_decision){.allowed = true};
    if (ration_check(s->limiter, charges, key_len ? 2 : 1, now_ns, d) != 0 || d->decided_by < 0)
        return "none";
    return limits[charges[d->decided_by].limit].name;
}

static int64_t seconds_up(int64_t ns)
{
    return ns / SECOND_NS + (ns % SECOND_NS > 0);
}

static void answer(const struct server *s, const struct client *c)
{
    char status[64] = "200 OK", body[256], out[1024];
    struct ration_decision d;
    int64_t now = ration_now(s->limiter);
    const char *rule = decide(s, c, now, &d);
    const struct ration_verdict *v = &d.verdict;
    int64_t reset = seconds_up(ration_wall(s->limiter, now) + v->reset_after_ns);
    int64_t retry = seconds_up(v->retry_after_ns); /* of a refusal: above 0, so at least 1 */

    if (!d.allowed)
        snprintf(status, sizeof status, "429 Too Many Requests\r\nRetry-After: %" PRId64, retry);
    int len = snprintf(body, sizeof body,
                       "{\"%s\",\"rule\":\"%s\",\"limit\":%" PRIu64 ",\"remaining\":%" PRIu64
                       ",\"reset\":%" PRId64 ",\"retry_after\":%" PRId64 "}\n",
                       d.allowed ? "message\":\"hello" : "error\":\"too many requests", rule,
                       v->limit, v->remaining, reset, retry);
    len = snprintf(out, sizeof out,
                   "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                   "X-RateLimit-Limit: %" PRIu64 "\r\nX-RateLimit-Remaining: %" PRIu64 "\r\n"
                   "X-RateLimit-Reset: %" PRId64 "\r\nConnection: close\r\n\r\n%s",
                   status, len, v->limit, v->remaining, reset,
                   strncmp(c->head, "HEAD ", 5) == 0 ? "" : body);
    send(c->fd, out, (size_t)len, MSG_NOSIGNAL); /* fits the empty buffer of a new socket */
}

static void *work(void *arg)
{
    const struct server *s = arg;
    struct client c;

    while (wait_readable(s, s->listener, -1)) {
        c.fd = accept(s->listener, (struct sockaddr *)&c.peer, &(socklen_t){sizeof c.peer});
        if (c.fd < 0)
            continue; /* another thread was faster */
        if (read_head(s, &c))
            answer(s, &c);
        close(c.fd);
    }
    return NULL;
}

static bool start_listening(struct server *s, const char *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(port)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};

    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) != 0 ||
        bind(s->listener, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(s->listener, 128) != 0 ||
        getsockname(s->listener, (struct sockaddr *)&at, &(socklen_t){sizeof at}) != 0)
        return false;
    printf("listening on http://127.0.0.1:%d\n", ntohs(at.sin_port));
    return fflush(stdout) == 0;
}

int main(int argc, char **argv)
{
    struct server s;
    pthread_t threads[THREADS];
    sigset_t signals;
    int started = 0, caught;
    int failed = ration_open(&(struct ration_options){.limits = limits, .limit_count = LIMITS},
                             &s.limiter, NULL);

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* in all threads: sigwait gets them */
    if (failed || pipe(s.stop) != 0 || !start_listening(&s, argc > 1 ? argv[1] : "8080")) {
        fprintf(stderr, "server: %s\n", failed ? ration_error_text(failed) : strerror(errno));
        return EXIT_FAILURE;
    }
    while (started < THREADS && pthread_create(&threads[started], NULL, work, &s) == 0)
        started++;
    sigwait(&signals, &caught);
    close(s.stop[1]);
    while (started > 0)
        pthread_join(threads[--started], NULL);
    ration_close(s.limiter);
    return EXIT_SUCCESS;
}
