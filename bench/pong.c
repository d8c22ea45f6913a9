/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a server of the Redis protocol does: for each read that ends a
 * command, one +PONG. For comparison with rationd without pipelining.
 *
 *     pong PORT
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS 64

static int listen_on(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 512) != 0) {
        perror("pong");
        exit(1);
    }
    return fd;
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void answer(int fd)
{
    static const char pong[] = "+PONG\r\n";
    char data[16384];
    ssize_t len = read(fd, data, sizeof data);

    if (len <= 0 || write(fd, pong, sizeof pong - 1) < 0)
        close(fd);
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS];
    int epoll = epoll_create1(0), listener;

    if (argc != 2)
        return 2;
    listener = listen_on((unsigned)strtoul(argv[1], NULL, 10));
    watch(epoll, listener);
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS, -1);

        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                watch(epoll, accept(listener, NULL, NULL));
            else
                answer(events[i].data.fd);
        }
    }
}
