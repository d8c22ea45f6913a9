/* SPDX-License-Identifier: Apache-2.0 */
/* Listening: no other process may have the address; sockets of dead daemons are replaced. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "echo.h"

static void assert_not_free(const char *address, const char *message)
{
    struct running r;
    struct ration_error error;

    prepare_server(&r, (struct rn_server_options){0});
    assert_int_equal(
        rn_server_listen(r.server, "tcp", address, RN_ON_WORKERS, &r.protocol, &r.seen, &error),
        RATION_EIO);
    assert_string_equal(error.text, message);
    rn_server_free(r.server);
}

#define IN_USE "another process is listening there; stop it or choose another address"

static void a_second_server_is_refused(void **state)
{
    struct running r;
    char message[300], address[RN_ADDRESS_TEXT];

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    snprintf(address, sizeof address, "%s", rn_server_address(r.server, "tcp"));
    snprintf(message, sizeof message, "cannot listen on %s: " IN_USE, address);
    assert_not_free(address, message);
    int fd = dial(&r, "tcp"); /* and the first one is none the worse */
    say(fd, "hello\n");
    expect(fd, "hello\n");
    close(fd);
    stop_server(&r);
}

/* The address is free again at once, although connections of it linger. */
static void the_next_server_gets_the_same_port(void **state)
{
    struct running r;
    char address[64] = "127.0.0.1:0";

    (void)state;
    for (int i = 0; i < 3; i++) {
        prepare_server(&r, (struct rn_server_options){0});
        listen_on(&r, "tcp", address);
        snprintf(address, sizeof address, "%s", rn_server_address(r.server, "tcp"));
        start_server(&r);
        int fd = dial(&r, "tcp");
        say(fd, "quit\n");
        expect(fd, "bye\n");
        expect_end(fd);
        close(fd);
        stop_server(&r);
    }
}

/* A socket of another process with SO_REUSEPORT would share our connections. */
static void a_process_that_would_share_the_port_is_noticed(void **state)
{
    struct rn_address to;
    char address[RN_ADDRESS_TEXT], message[300];
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(rn_address_parse("127.0.0.1:0", &to, NULL), 0);
    assert_int_equal(bind(fd, &to.to.any, to.len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, &to.to.any, &to.len), 0);
    rn_address_write(&to, address);
    snprintf(message, sizeof message, "cannot listen on %s: " IN_USE, address);
    assert_not_free(address, message);
    close(fd);
}

static void a_foreign_address_is_refused_with_the_reason(void **state)
{
    char reason[100];

    (void)state;
    snprintf(reason, sizeof reason, "cannot listen on 192.0.2.1:80: %s", strerror(EADDRNOTAVAIL));
    assert_not_free("192.0.2.1:80", reason);
}

struct place {
    char path[64], address[80];
};

static struct place place_of(const char *name)
{
    struct place place;

    snprintf(place.path, sizeof place.path, "/tmp/rn_%s_%d", name, (int)getpid());
    snprintf(place.address, sizeof place.address, "unix:%s", place.path);
    unlink(place.path);
    return place;
}

/* A socket of another process, alive or dead. */
static int leave_socket(const struct place *place)
{
    struct rn_address to;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_int_equal(rn_address_parse(place->address, &to, NULL), 0);
    assert_int_equal(bind(fd, &to.to.any, to.len), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void the_socket_of_a_dead_daemon_is_replaced(void **state)
{
    struct place place = place_of("dead");
    struct running r;

    (void)state;
    close(leave_socket(&place));
    prepare_server(&r, (struct rn_server_options){0});
    listen_on(&r, "local", place.address);
    start_server(&r);
    int fd = dial(&r, "local");
    say(fd, "hello\n");
    expect(fd, "hello\n");
    close(fd);
    stop_server(&r);
}

static void the_socket_of_a_living_daemon_is_left_alone(void **state)
{
    struct place place = place_of("alive");
    char message[200];
    int fd = leave_socket(&place);

    (void)state;
    snprintf(message, sizeof message, "cannot listen on %s: " IN_USE, place.address);
    assert_not_free(place.address, message);
    int client = try_dial(place.address);
    assert_true(client >= 0);
    close(client);
    close(fd);
    unlink(place.path);
}

static void a_file_that_is_no_socket_is_left_alone(void **state)
{
    struct place place = place_of("file");
    char message[200];
    struct stat is;

    (void)state;
    close(open(place.path, O_CREAT | O_WRONLY, 0600));
    snprintf(message, sizeof message,
             "cannot listen on %s: there is a file that is not a socket; remove it or choose "
             "another path",
             place.address);
    assert_not_free(place.address, message);
    assert_int_equal(stat(place.path, &is), 0);
    unlink(place.path);
}

static void a_missing_directory_is_named(void **state)
{
    (void)state;
    assert_not_free("unix:/nowhere/to/be/found",
                    "cannot listen on unix:/nowhere/to/be/found: No such file or directory");
}

/* A socket that another server has put in our place is not removed. */
static void only_our_own_socket_is_removed(void **state)
{
    struct place place = place_of("swapped");
    struct running r;
    struct stat is;

    (void)state;
    prepare_server(&r, (struct rn_server_options){0});
    listen_on(&r, "local", place.address);
    start_server(&r);
    unlink(place.path);
    int other = leave_socket(&place);
    stop_server(&r);
    assert_int_equal(stat(place.path, &is), 0);
    close(other);
    unlink(place.path);
}

/* What this program does when it was started with an argument. */
static int serve_activated(void)
{
    struct running r;
    struct ration_error error;

    prepare_server(&r, (struct rn_server_options){0});
    int failed = rn_server_listen(r.server, "tcp", "192.0.2.1:1", RN_ON_WORKERS, &r.protocol,
                                  &r.seen, &error);
    if (failed == 0)
        failed = rn_server_run(r.server, &r.calls, &error);
    if (failed != 0)
        fprintf(stderr, "# %s\n", error.text);
    rn_server_free(r.server);
    return failed != 0;
}

/* Starts this program once more, with two sockets as file descriptors 3 and 4. With the emulator
 * that meson names, the kernel could not start it: the test is skipped. */
static pid_t start_activated(const int passed[2], const char *names, const char *pid)
{
    char own[16];

    if (getenv("MESON_EXE_WRAPPER"))
        skip();
    pid_t child = fork();

    if (child != 0)
        return child;
    int first = fcntl(passed[0], F_DUPFD, 10), second = fcntl(passed[1], F_DUPFD, 10);
    dup2(first, 3);
    dup2(second, 4);
    snprintf(own, sizeof own, "%d", (int)getpid());
    setenv("LISTEN_PID", pid ? pid : own, 1);
    setenv("LISTEN_FDS", "2", 1);
    setenv("LISTEN_FDNAMES", names, 1);
    execl("/proc/self/exe", "test_listener", "activated", NULL);
    _exit(127);
}

static int wait_child(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int listen_anywhere(char address[RN_ADDRESS_TEXT])
{
    struct rn_address to;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(rn_address_parse("127.0.0.1:0", &to, NULL), 0);
    assert_int_equal(bind(fd, &to.to.any, to.len), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, &to.to.any, &to.len), 0);
    rn_address_write(&to, address);
    return fd;
}

static void sockets_of_the_service_manager_replace_the_address(void **state)
{
    char first[RN_ADDRESS_TEXT], second[RN_ADDRESS_TEXT];
    int passed[2] = {listen_anywhere(first), listen_anywhere(second)};
    pid_t child = start_activated(passed, "tcp:tcp", NULL);

    (void)state;
    for (int i = 0; i < 10; i++) {
        int fd = try_dial(i % 2 == 0 ? first : second);
        assert_true(fd >= 0);
        say(fd, "hello\n");
        expect(fd, "hello\n");
        close(fd);
    }
    kill(child, SIGTERM);
    assert_int_equal(wait_child(child), 0);
    close(passed[0]);
    close(passed[1]);
}

static void sockets_for_others_are_not_taken(void **state)
{
    char first[RN_ADDRESS_TEXT], second[RN_ADDRESS_TEXT];
    int passed[2] = {listen_anywhere(first), listen_anywhere(second)};

    (void)state;
    assert_int_equal(wait_child(start_activated(passed, "tcp:tcp", "1")), 1);
    assert_int_equal(wait_child(start_activated(passed, "tc:tcpp", NULL)), 1);
    close(passed[0]);
    close(passed[1]);
}

static void a_descriptor_that_does_not_listen_is_refused(void **state)
{
    int passed[2] = {socket(AF_INET, SOCK_STREAM, 0), socket(AF_INET, SOCK_DGRAM, 0)};

    (void)state;
    assert_int_equal(wait_child(start_activated(passed, "tcp:x", NULL)), 1);
    assert_int_equal(wait_child(start_activated(passed, "x:tcp", NULL)), 1);
    close(passed[0]);
    close(passed[1]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_server_is_refused),
        cmocka_unit_test(the_next_server_gets_the_same_port),
        cmocka_unit_test(a_process_that_would_share_the_port_is_noticed),
        cmocka_unit_test(a_foreign_address_is_refused_with_the_reason),
        cmocka_unit_test(the_socket_of_a_dead_daemon_is_replaced),
        cmocka_unit_test(the_socket_of_a_living_daemon_is_left_alone),
        cmocka_unit_test(a_file_that_is_no_socket_is_left_alone),
        cmocka_unit_test(a_missing_directory_is_named),
        cmocka_unit_test(only_our_own_socket_is_removed),
        cmocka_unit_test(sockets_of_the_service_manager_replace_the_address),
        cmocka_unit_test(sockets_for_others_are_not_taken),
        cmocka_unit_test(a_descriptor_that_does_not_listen_is_refused),
    };

    if (argc == 2 && strcmp(argv[1], "activated") == 0)
        return serve_activated();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
