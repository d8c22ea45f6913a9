/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of files, however they come about, and messages to the service manager. */
#include <fcntl.h>
#include <sys/stat.h>

#include "echo.h"
#include "net/systemd.h"

struct scene {
    struct running r;
    char folder[64];
    _Atomic int changes;
};

static void count_change(void *arg)
{
    ((struct scene *)arg)->changes++;
}

static const char *in(const struct scene *s, const char *name)
{
    static _Thread_local char paths[4][128];
    static _Thread_local int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", s->folder, name);
    return path;
}

static void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void begin(struct scene *s)
{
    memset(s, 0, sizeof *s);
    snprintf(s->folder, sizeof s->folder, "/tmp/rn_watch_XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    prepare_server(&s->r, (struct rn_server_options){.workers = 1});
}

static void watch_one(struct scene *s, const char *path)
{
    assert_int_equal(rn_server_watch(s->r.server, &path, 1, count_change, s), 0);
    start_server(&s->r);
}

static void end(struct scene *s)
{
    char command[100];

    stop_server(&s->r);
    snprintf(command, sizeof command, "rm -r %s", s->folder);
    assert_int_equal(system(command), 0);
}

static void a_file_written_in_place_or_replaced_is_noticed(void **state)
{
    struct scene s;

    (void)state;
    begin(&s);
    put_file(in(&s, "rules"), "one");
    watch_one(&s, in(&s, "rules"));
    put_file(in(&s, "rules"), "two!");
    wait_for(s.changes == 1);
    put_file(in(&s, "rules.new"), "two!");
    rename(in(&s, "rules.new"), in(&s, "rules"));
    wait_for(s.changes == 2);
    put_file(in(&s, "rules"), "four"); /* the new file, too */
    wait_for(s.changes == 3);
    unlink(in(&s, "rules"));
    wait_for(s.changes == 4);
    put_file(in(&s, "rules"), "back");
    wait_for(s.changes == 5);
    end(&s);
}

/* rules -> ..data/rules, ..data -> ..1, then ..data -> ..2 by rename. */
static void a_swap_of_links_is_noticed(void **state)
{
    struct scene s;

    (void)state;
    begin(&s);
    mkdir(in(&s, "..1"), 0700);
    mkdir(in(&s, "..2"), 0700);
    put_file(in(&s, "..1/rules"), "same");
    put_file(in(&s, "..2/rules"), "same");
    assert_int_equal(symlink("..1", in(&s, "..data")), 0);
    assert_int_equal(symlink("..data/rules", in(&s, "rules")), 0);
    watch_one(&s, in(&s, "rules"));
    assert_int_equal(symlink("..2", in(&s, "..tmp")), 0);
    assert_int_equal(rename(in(&s, "..tmp"), in(&s, "..data")), 0);
    wait_for(s.changes == 1);
    put_file(in(&s, "..2/rules"), "changed");
    wait_for(s.changes == 2);
    end(&s);
}

static void a_swap_of_a_link_on_the_way_is_noticed(void **state)
{
    struct scene s;

    (void)state;
    begin(&s);
    mkdir(in(&s, "v1"), 0700);
    mkdir(in(&s, "v2"), 0700);
    put_file(in(&s, "v1/rules"), "1");
    put_file(in(&s, "v2/rules"), "2");
    assert_int_equal(symlink("v1", in(&s, "current")), 0);
    watch_one(&s, in(&s, "current/rules"));
    assert_int_equal(symlink("v2", in(&s, "next")), 0);
    assert_int_equal(rename(in(&s, "next"), in(&s, "current")), 0);
    wait_for(s.changes == 1);
    end(&s);
}

static void files_of_a_directory_are_noticed(void **state)
{
    struct scene s;

    (void)state;
    begin(&s);
    mkdir(in(&s, "rules.d"), 0700);
    watch_one(&s, in(&s, "rules.d"));
    put_file(in(&s, "rules.d/a"), "1");
    wait_for(s.changes == 1);
    put_file(in(&s, "rules.d/a"), "22");
    wait_for(s.changes == 2);
    unlink(in(&s, "rules.d/a"));
    wait_for(s.changes == 3);
    mkdir(in(&s, "rules.d/team"), 0700); /* and of those in it */
    wait_for(s.changes == 4);
    put_file(in(&s, "rules.d/team/a"), "1");
    wait_for(s.changes == 5);
    put_file(in(&s, "rules.d/team/a"), "22");
    wait_for(s.changes == 6);
    end(&s);
}

/* On the thread that watches: it cannot look in between. */
static void write_a_burst_at_first(void *arg)
{
    struct scene *s = arg;

    if (++s->changes > 1)
        return;
    put_file(in(s, "rules"), "3  ");
    put_file(in(s, "rules"), "4   ");
    put_file(in(s, "rules"), "5    ");
}

/* Neighbours and scratch files of editors are not; and a burst is one change. */
static void only_watched_files_are_reported(void **state)
{
    struct scene s;
    const char *path;

    (void)state;
    begin(&s);
    put_file(in(&s, "rules"), "1");
    path = in(&s, "rules");
    assert_int_equal(rn_server_watch(s.r.server, &path, 1, write_a_burst_at_first, &s), 0);
    start_server(&s.r);
    for (int i = 0; i < 5; i++) {
        put_file(in(&s, "neighbour"), i % 2 == 0 ? "x" : "yy");
        put_file(in(&s, ".rules.swp"), i % 2 == 0 ? "x" : "yy");
        usleep(150000);
    }
    assert_int_equal(s.changes, 0);
    put_file(in(&s, ".rules.new"), "2 ");
    rename(in(&s, ".rules.new"), in(&s, "rules"));
    wait_for(s.changes > 1);
    usleep(300000);
    assert_int_equal(s.changes, 2);
    end(&s);
}

static void watch_other(void *arg)
{
    struct scene *s = arg;
    const char *other = in(s, "other");

    s->changes++;
    assert_int_equal(rn_server_watch(s->r.server, &other, 1, count_change, s), 0);
}

static void a_watch_can_be_replaced_from_within(void **state)
{
    struct scene s;
    const char *path;

    (void)state;
    begin(&s);
    put_file(in(&s, "rules"), "1");
    put_file(in(&s, "other"), "1");
    path = in(&s, "rules");
    assert_int_equal(rn_server_watch(s.r.server, &path, 1, watch_other, &s), 0);
    start_server(&s.r);
    put_file(in(&s, "rules"), "22");
    wait_for(s.changes == 1);
    put_file(in(&s, "rules"), "333"); /* no longer of interest */
    usleep(300000);
    put_file(in(&s, "other"), "22");
    wait_for(s.changes == 2);
    end(&s);
}

static int open_manager(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void the_service_manager_is_notified(void **state)
{
    char path[64], got[200] = "";

    (void)state;
    snprintf(path, sizeof path, "/tmp/rn_notify_%d", (int)getpid());
    int fd = open_manager(path);
    setenv("NOTIFY_SOCKET", path, 1);
    assert_true(rn_systemd_notify("READY=1"));
    assert_int_equal(receive(fd, got, sizeof got, 0), 7);
    assert_memory_equal(got, "READY=1", 7);
    assert_true(rn_systemd_notify("RELOADING=1"));
    memset(got, 0, sizeof got);
    receive(fd, got, sizeof got - 1, 0);
    assert_memory_equal(got, "RELOADING=1\nMONOTONIC_USEC=", 27);
    assert_true(atoll(got + 27) > 0);
    close(fd);
    assert_false(rn_systemd_notify("READY=1")); /* it has gone */
    unlink(path);
    setenv("NOTIFY_SOCKET", "not/absolute", 1);
    assert_false(rn_systemd_notify("READY=1"));
    unsetenv("NOTIFY_SOCKET");
    assert_false(rn_systemd_notify("READY=1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_written_in_place_or_replaced_is_noticed),
        cmocka_unit_test(a_swap_of_links_is_noticed),
        cmocka_unit_test(a_swap_of_a_link_on_the_way_is_noticed),
        cmocka_unit_test(files_of_a_directory_are_noticed),
        cmocka_unit_test(only_watched_files_are_reported),
        cmocka_unit_test(a_watch_can_be_replaced_from_within),
        cmocka_unit_test(the_service_manager_is_notified),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
