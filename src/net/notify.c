/* SPDX-License-Identifier: Apache-2.0 */
#include "net/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

/* "/path", or "@name" in the abstract name space. */
static socklen_t read_target(const char *text, struct sockaddr_un *to)
{
    size_t len = strlen(text);

    if ((text[0] != '/' && text[0] != '@') || len >= sizeof to->sun_path)
        return 0;
    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(to->sun_path, text, len);
    if (text[0] == '@')
        to->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

bool rn_notify(const char *state)
{
    const char *target = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to;
    socklen_t to_len = target ? read_target(target, &to) : 0;
    char text[512];
    int len = snprintf(text, sizeof text, "%s", state);

    if (to_len == 0 || len < 0 || (size_t)len >= sizeof text)
        return false;
    if (strncmp(state, "RELOADING=1", 11) == 0)
        len += snprintf(text + len, sizeof text - (size_t)len, "\nMONOTONIC_USEC=%lld",
                        (long long)(rn_clock_read_ns(CLOCK_MONOTONIC) / 1000));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    ssize_t sent = sendto(fd, text, strnlen(text, (size_t)len), MSG_NOSIGNAL,
                          (const struct sockaddr *)&to, to_len);
    close(fd);
    return sent > 0;
}
