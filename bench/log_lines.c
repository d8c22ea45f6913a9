/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes an access log: log_lines FORMAT LINES CLIENTS. 2,000 requests a second; few of the clients
 * make many of the requests.
 */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RATE 2000
#define BEGIN 1795075200 /* 2026-11-19 08:00 UTC */

struct request {
    uint64_t number;
    char ip[16], date[32], iso[32];
    const char *path;
    unsigned milliseconds;
};

static const char *const paths[] = {"/",      "/api/items",     "/api/items/42?fields=name,price",
                                    "/login", "/static/app.js", "/api/search?q=access+log"};

static void put_combined(const struct request *r)
{
    printf("%s - - [%s +0000] \"GET %s HTTP/1.1\" 200 512 \"https://www.example.com/shop\" "
           "\"Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0\"\n",
           r->ip, r->date, r->path);
}

static void put_nginx_json(const struct request *r)
{
    printf("{\"time_iso8601\":\"%s+00:00\",\"remote_addr\":\"%s\",\"request_method\":\"GET\","
           "\"request_uri\":\"%s\",\"status\":\"200\",\"body_bytes_sent\":\"512\","
           "\"request_time\":\"0.%03u\",\"http_user_agent\":\"Mozilla/5.0 (X11; Linux x86_64)\"}\n",
           r->iso, r->ip, r->path, r->milliseconds);
}

static void put_caddy(const struct request *r)
{
    printf(
        "{\"level\":\"info\",\"ts\":%" PRIu64 ".%03u,\"logger\":\"http.log.access\",\"msg\":"
        "\"handled request\",\"request\":{\"remote_ip\":\"%s\",\"remote_port\":\"4221\","
        "\"client_ip\":\"%s\",\"proto\":\"HTTP/2.0\",\"method\":\"GET\",\"host\":\"example.com\","
        "\"uri\":\"%s\",\"headers\":{\"User-Agent\":[\"curl/7.88\"],\"Accept\":[\"*/*\"]}},"
        "\"bytes_read\":0,\"user_id\":\"\",\"duration\":0.0011,\"size\":512,\"status\":200}\n",
        (uint64_t)BEGIN + r->number / RATE, (unsigned)(r->number % RATE / 2), r->ip, r->ip,
        r->path);
}

static void put_traefik(const struct request *r)
{
    printf("{\"ClientAddr\":\"%s:3211\",\"ClientHost\":\"%s\",\"ClientUsername\":\"-\","
           "\"DownstreamStatus\":200,\"Duration\":1100000,\"RequestHost\":\"example.com\","
           "\"RequestMethod\":\"GET\",\"RequestPath\":\"%s\",\"RequestProtocol\":\"HTTP/1.1\","
           "\"StartUTC\":\"%s.%03uZ\",\"level\":\"info\",\"time\":\"%sZ\"}\n",
           r->ip, r->ip, r->path, r->iso, (unsigned)(r->number % RATE / 2), r->iso);
}

static void put_envoy(const struct request *r)
{
    printf("{\"start_time\":\"%s.%03uZ\",\"method\":\"GET\",\"path\":\"%s\",\"protocol\":"
           "\"HTTP/1.1\",\"response_code\":200,\"duration\":1,\"bytes_sent\":512,"
           "\"authority\":\"example.com\",\"downstream_remote_address\":\"%s:4221\"}\n",
           r->iso, (unsigned)(r->number % RATE / 2), r->path, r->ip);
}

static void put_haproxy(const struct request *r)
{
    printf("Nov 19 08:00:00 lb haproxy[14389]: %s:33317 [%s.%03u] http-in static/srv1 "
           "10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 \"GET %s HTTP/1.1\"\n",
           r->ip, r->date, (unsigned)(r->number % RATE / 2), r->path);
}

static void put_alb(const struct request *r)
{
    printf("http %s.186641Z app/my-loadbalancer/50dc6c495c0c9188 %s:2817 10.0.0.1:80 0.000 0.001 "
           "0.000 200 200 34 366 \"GET http://www.example.com:80%s HTTP/1.1\" \"curl/7.46.0\" - - "
           "arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2 "
           "\"Root=1-58337262-36d228ad5d99923122bbe354\" \"-\" \"-\" 0 %s.%03uZ \"forward\" \"-\" "
           "\"-\" \"10.0.0.1:80\" \"200\" \"-\" \"-\"\n",
           r->iso, r->ip, r->path, r->iso, (unsigned)(r->number % RATE / 2));
}

static void put_csv(const struct request *r)
{
    if (r->number == 0)
        puts("time,ip,method,path,status");
    printf("%sZ,%s,GET,%s,200\n", r->iso, r->ip, strchr(r->path, ',') != NULL ? "/api" : r->path);
}

static void put_json(const struct request *r)
{
    printf("{\"time\":\"%sZ\",\"ip\":\"%s\",\"method\":\"GET\",\"path\":\"%s\",\"status\":200}\n",
           r->iso, r->ip, r->path);
}

static const struct {
    const char *name;
    void (*put)(const struct request *request);
} formats[] = {{"combined", put_combined}, {"nginx-json", put_nginx_json},
               {"caddy", put_caddy},       {"traefik", put_traefik},
               {"envoy", put_envoy},       {"haproxy", put_haproxy},
               {"alb", put_alb},           {"csv", put_csv},
               {"json", put_json}};

/* xorshift; a Pareto distribution of clients. */
static uint64_t next_client(uint64_t *dice, uint64_t clients)
{
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    double u = (double)(*dice >> 11) / 9007199254740992.0;

    return (uint64_t)(pow(u, 3) * (double)clients);
}

int main(int argc, char **argv)
{
    uint64_t lines = argc == 4 ? strtoull(argv[2], NULL, 10) : 0, dice = 88172645463325252;
    uint64_t clients = argc == 4 ? strtoull(argv[3], NULL, 10) : 0, client;
    struct request r = {.number = 0};
    size_t format = 0;

    while (argc == 4 && format < sizeof formats / sizeof *formats &&
           strcmp(formats[format].name, argv[1]) != 0)
        format++;
    if (lines == 0 || clients == 0 || format == sizeof formats / sizeof *formats) {
        fprintf(stderr, "usage: log_lines FORMAT LINES CLIENTS\n");
        return 2;
    }
    for (; r.number < lines; r.number++) {
        if (r.number % RATE == 0) {
            time_t now = (time_t)(BEGIN + r.number / RATE);
            struct tm tm;

            gmtime_r(&now, &tm);
            strftime(r.date, sizeof r.date, "%d/%b/%Y:%H:%M:%S", &tm);
            strftime(r.iso, sizeof r.iso, "%Y-%m-%dT%H:%M:%S", &tm);
        }
        client = next_client(&dice, clients);
        snprintf(r.ip, sizeof r.ip, "10.%u.%u.%u", (unsigned)(client >> 16 & 255),
                 (unsigned)(client >> 8 & 255), (unsigned)(client & 255));
        r.path = paths[dice % 6];
        r.milliseconds = (unsigned)(dice % 400);
        formats[format].put(&r);
    }
    return 0;
}
