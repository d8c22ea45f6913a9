/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L

#include "http_call.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { HEAD_MAX = 16384 };

/* A connection, or -1. */
static int dial(const struct http_call *call)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct timeval timeout = {.tv_sec = call->timeout_s};
    int fd = -1;

    if (getaddrinfo(call->host, call->port, &hints, &found) != 0)
        return -1;
    for (struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout); /* connect, too */
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

static bool send_request(int fd, const struct http_call *call)
{
    char text[2048];
    int length = snprintf(text, sizeof text,
                          "POST %s HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n"
                          "Idempotency-Key: %s\r\nContent-Length: 2\r\n\r\n{}",
                          call->path, call->host, call->port, call->key);

    return length > 0 && (size_t)length < sizeof text &&
           send(fd, text, (size_t)length, MSG_NOSIGNAL) == length;
}

/* Reads up to the blank line that ends the head. False: there is none. */
static bool read_head(int fd, char head[HEAD_MAX])
{
    size_t length = 0;

    while (length + 1 < HEAD_MAX) {
        ssize_t got = recv(fd, head + length, HEAD_MAX - 1 - length, 0);

        if (got <= 0)
            return false;
        length += (size_t)got;
        head[length] = '\0';
        if (strstr(head, "\r\n\r\n"))
            return true;
    }
    return false;
}

static void read_retry_after(const char *head, char *out, size_t size)
{
    static const char name[] = "\r\nRetry-After:";
    const size_t name_len = sizeof name - 1;

    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line, name, name_len) != 0)
            continue;
        const char *value = line + name_len + strspn(line + name_len, " \t");

        snprintf(out, size, "%.*s", (int)strcspn(value, "\r\n"), value);
        return;
    }
}

void http_call_make(struct http_call *call)
{
    char head[HEAD_MAX];
    int fd = dial(call);

    call->status = 0;
    call->retry_after[0] = '\0';
    if (fd < 0)
        return;
    if (send_request(fd, call) && read_head(fd, head) &&
        sscanf(head, "HTTP/1.%*d %d", &call->status) == 1)
        read_retry_after(head, call->retry_after, sizeof call->retry_after);
    close(fd);
}
