/* SPDX-License-Identifier: Apache-2.0 */
/* A server talks with clients that behave. */
#include "echo.h"

static void lines_are_echoed_over_tcp(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    int fd = dial(&r, "tcp");
    say(fd, "hello\n");
    expect(fd, "hello\n");
    say(fd, "again\n");
    expect(fd, "again\n");
    close(fd);
    wait_for(r.seen.closed == 1);
    stop_server(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_echoed_over_tcp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
