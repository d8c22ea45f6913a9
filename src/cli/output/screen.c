/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals are read from a signalfd, so that they arrive only where the program waits.
 */
#include "cli/output/screen.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"

/* The alternate screen, no cursor, no line wrap; and back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[2J"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

/* Gives up if the terminal takes no output, instead of hanging. */
static void write_all(const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, data, len);

        if (n < 0 && errno != EINTR)
            return;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
}

static void measure(struct rn_screen *s)
{
    struct winsize size;

    s->rows = 24;
    s->columns = 80;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
        s->rows = size.ws_row;
        s->columns = size.ws_col;
    }
}

/* No line buffering and no echo; Ctrl-C and Ctrl-Z remain signals. */
static void enter(struct rn_screen *s)
{
    struct termios mode = s->before;

    mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &mode);
    write_all(ENTER, sizeof ENTER - 1);
    s->shown = true;
    measure(s);
}

static void leave(struct rn_screen *s)
{
    if (!s->shown)
        return;
    write_all(LEAVE, sizeof LEAVE - 1);
    tcsetattr(STDIN_FILENO, TCSANOW, &s->before);
    s->shown = false;
}

static bool watch(int wake_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(wake_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool rn_screen_open(struct rn_screen *s)
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};
    sigset_t signals;

    *s = (struct rn_screen){.signal_fd = -1, .wake_fd = -1};
    if (tcgetattr(STDIN_FILENO, &s->before) != 0)
        return false;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        sigaddset(&signals, taken[i]);
    sigprocmask(SIG_BLOCK, &signals, &s->signals_before);
    s->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    s->wake_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s->signal_fd < 0 || s->wake_fd < 0 || !watch(s->wake_fd, s->signal_fd) ||
        !watch(s->wake_fd, STDIN_FILENO)) {
        rn_screen_close(s);
        return false;
    }
    enter(s);
    return true;
}

void rn_screen_close(struct rn_screen *s)
{
    leave(s);
    if (s->signal_fd >= 0)
        close(s->signal_fd);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    sigprocmask(SIG_SETMASK, &s->signals_before, NULL);
}

/* --- frames ------------------------------------------------------------------------ */

void rn_screen_show(struct rn_screen *s, struct rn_slice text)
{
    struct rn_buf out = {0};
    int row = 0;

    rn_buf_put_literal(&out, "\033[H");
    while (text.len > 0 && row < s->rows) {
        const char *end = memchr(text.data, '\n', text.len);
        size_t len = end != NULL ? (size_t)(end - text.data) : text.len;
        int left = s->columns;

        if (row++ > 0)
            rn_buf_put_literal(&out, "\r\n");
        /* Cut the line to the width. Colour sequences are kept and take no room. */
        for (size_t at = 0, taken; at < len; at += taken) {
            taken = 1;
            if (text.data[at] == '\033') /* ESC [ digits letter */
                while (at + taken < len &&
                       (unsigned char)(text.data[at + taken++] | 0x20) - 'a' > 'z' - 'a')
                    ;
            else if (rn_utf8_is_start(text.data[at]))
                left--;
            if (left >= 0)
                rn_buf_put(&out, text.data + at, taken);
        }
        rn_buf_put_literal(&out, "\033[0m\033[K");
        len += end != NULL;
        text = (struct rn_slice){text.data + len, text.len - len};
    }
    if (row < s->rows)
        rn_buf_put_literal(&out, "\033[J");
    if (!out.failed)
        write_all(out.data, out.len);
    rn_buf_done(&out);
}

/* --- events ------------------------------------------------------------------------ */

static enum rn_screen_event take_signal(struct rn_screen *s)
{
    struct signalfd_siginfo signal;

    if (read(s->signal_fd, &signal, sizeof signal) != sizeof signal)
        return RN_SCREEN_TIME;
    if (signal.ssi_signo == SIGTSTP) {
        leave(s);
        raise(SIGSTOP);
        enter(s);
    } else if (signal.ssi_signo == SIGWINCH) {
        measure(s);
    } else {
        return RN_SCREEN_QUIT;
    }
    return RN_SCREEN_REDRAW;
}

enum rn_screen_event rn_screen_wait(struct rn_screen *s, int64_t until_ns)
{
    struct pollfd fds[2] = {{.fd = s->signal_fd, .events = POLLIN},
                            {.fd = STDIN_FILENO, .events = POLLIN}};
    char key;

    for (;;) {
        int64_t left_ns = until_ns - rn_clock_read_ns(CLOCK_MONOTONIC);
        int ready = left_ns <= 0 ? poll(fds, 2, 0) : poll(fds, 2, (int)(left_ns / 1000000) + 1);

        if (ready > 0 && fds[0].revents != 0)
            return take_signal(s);
        if (ready > 0 && (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q'))
            return RN_SCREEN_QUIT;
        if (ready == 0)
            return RN_SCREEN_TIME;
    }
}
