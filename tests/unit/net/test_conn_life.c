/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps in the life of a connection are legal, and that illegal ones are caught.
 * What leads to each step is tested in test_server.c, test_dialler.c and test_tls.c. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/loop.h"

#define LIVES (RN_LIFE_CLOSED + 1)

/* The diagram of net/conn_life.h: for each state, those that may follow. */
static const char legal[LIVES][LIVES + 1] = {
    /*                        CHOCLBX */
    [RN_LIFE_CONNECTING] = {"-yyy-yy"}, /* to HANDSHAKE, OPEN, CLOSING, BROKEN, CLOSED */
    [RN_LIFE_HANDSHAKE] = {"--yy-yy"},  /* to OPEN, CLOSING, BROKEN, CLOSED */
    [RN_LIFE_OPEN] = {"---y-yy"},       /* to CLOSING, BROKEN, CLOSED */
    [RN_LIFE_CLOSING] = {"----yyy"},    /* to LINGERING, BROKEN, CLOSED */
    [RN_LIFE_LINGERING] = {"-----yy"},  /* to BROKEN, CLOSED */
    [RN_LIFE_BROKEN] = {"------y"},     /* to CLOSED */
    [RN_LIFE_CLOSED] = {"-------"},
};

static void test_the_steps_of_the_diagram_and_no_others_are_legal(void **state)
{
    (void)state;
    for (unsigned from = 0; from < LIVES; from++)
        for (unsigned to = 0; to < LIVES; to++)
            assert_int_equal(rn_conn_life_allows(from, to), legal[from][to] == 'y');
}

static void test_a_legal_step_changes_the_state(void **state)
{
    (void)state;
    for (unsigned from = 0; from < LIVES; from++) {
        for (unsigned to = 0; to < LIVES; to++) {
            struct rn_conn conn = {.life = from};
            if (legal[from][to] != 'y')
                continue;
            rn_conn_enter(&conn, to);
            assert_int_equal(conn.life, to);
        }
    }
}

static void test_an_illegal_step_aborts(void **state)
{
    (void)state;
#ifdef NDEBUG
    skip();
#endif
    for (unsigned from = 0; from < LIVES; from++) {
        for (unsigned to = 0; to < LIVES; to++) {
            int status;
            if (legal[from][to] == 'y')
                continue;
            pid_t child = fork();
            if (child == 0) {
                struct rn_conn conn = {.life = from};

                setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
                close(STDERR_FILENO);
                signal(SIGABRT, SIG_DFL);
                rn_conn_enter(&conn, to);
                _exit(0);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        }
    }
}

static void test_breaking_twice_is_once_and_never_revives(void **state)
{
    (void)state;
    for (unsigned from = 0; from < LIVES; from++) {
        struct rn_conn conn = {.life = from};

        rn_conn_break(&conn);
        rn_conn_break(&conn);
        assert_int_equal(conn.life, from == RN_LIFE_CLOSED ? RN_LIFE_CLOSED : RN_LIFE_BROKEN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_steps_of_the_diagram_and_no_others_are_legal),
        cmocka_unit_test(test_a_legal_step_changes_the_state),
        cmocka_unit_test(test_an_illegal_step_aborts),
        cmocka_unit_test(test_breaking_twice_is_once_and_never_revives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
