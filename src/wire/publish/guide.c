/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all callers should know, whatever the limits: the headers, and how to come back. The samples
 * are tested as they stand here.
 */
#include "wire/publish/publish_internal.h"

const char rn_publish_advice[] =
    "After a refusal wait for as long as Retry-After says, and a random time more, before you ask "
    "again. A refused request costs nothing. Repeat only what may be repeated, and give up after "
    "a few attempts. Without Retry-After the request can never be served: do not repeat it.";

static const char curl[] =
    "curl --fail --retry 5 --retry-max-time 60 https://api.example.com/items\n";

static const char python[] =
    "import random, time, urllib.error, urllib.request\n"
    "\n"
    "def get(url, attempts=5):\n"
    "    for attempt in range(attempts):\n"
    "        try:\n"
    "            return urllib.request.urlopen(url).read()\n"
    "        except urllib.error.HTTPError as error:\n"
    "            wait = error.headers.get('Retry-After')\n"
    "            if error.code not in (429, 503) or wait is None or attempt == attempts - 1:\n"
    "                raise\n"
    "            time.sleep(float(wait) + random.uniform(0, min(10, 0.2 * 2 ** attempt)))\n";

static const char javascript[] =
    "async function get(url, attempts = 5) {\n"
    "  for (let attempt = 0; ; attempt++) {\n"
    "    const answer = await fetch(url);\n"
    "    const wait = answer.headers.get('retry-after');\n"
    "    if (![429, 503].includes(answer.status) || wait === null || attempt === attempts - 1)\n"
    "      return answer;\n"
    "    const jitter = Math.random() * Math.min(10, 0.2 * 2 ** attempt);\n"
    "    await new Promise(done => setTimeout(done, (Number(wait) + jitter) * 1000));\n"
    "  }\n"
    "}\n";

struct rn_publish_headers rn_publish_headers_of(const struct rn_ruleset *set)
{
    struct rn_publish_headers h = {0};

    for (uint32_t i = 0; set && i < set->rule_count; i++) {
        const struct rn_response *response = &set->rules[i].response;
        bool both = response->headers == RN_HEADERS_BOTH;

        if (!rn_publish_shows(&set->rules[i]))
            continue;
        h.x |= both || response->headers == RN_HEADERS_X;
        h.ietf |= both || response->headers == RN_HEADERS_IETF;
        h.as_retryafter |= response->retryafter;
    }
    return h;
}

bool rn_publish_header(struct rn_publish_headers headers, size_t i, const char **name,
                       const char **meaning)
{
    static const struct {
        const char *name, *meaning;
        bool x, ietf;
    } all[] = {
        {"Retry-After", "on refusals: seconds until this request would be served", false, false},
        {"X-RateLimit-Limit", "of the limit that has least left: the most it admits at once", true,
         false},
        {"X-RateLimit-Remaining", "how many of them are left", true, false},
        {"X-RateLimit-Reset", "when all of them are back: Unix time in seconds", true, false},
        {"X-RateLimit-Retry-After", "on refusals: the same as Retry-After", true, false},
        {"RateLimit-Policy", "each limit by its name: q units in w seconds", false, true},
        {"RateLimit", "each limit by its name: r units are left, all are back in t seconds", false,
         true},
    };

    for (size_t k = 0; k < RN_COUNT(all); k++) {
        if ((all[k].x && !headers.x) || (all[k].ietf && !headers.ietf) || i-- != 0)
            continue;
        bool retry = rn_slice_is(rn_slice_of(all[k].name), "X-RateLimit-Retry-After");

        *name = retry && headers.as_retryafter ? "X-RateLimit-RetryAfter" : all[k].name;
        *meaning = all[k].meaning;
        return true;
    }
    return false;
}

void rn_publish_put_guide(struct rn_markup *d, struct rn_publish_headers headers)
{
    const char *name, *meaning;

    rn_markup_heading(d, RN_SLICE("Headers"));
    rn_markup_table_open(d, (const char *const[]){"Header", "Meaning"}, 2);
    for (size_t i = 0; rn_publish_header(headers, i, &name, &meaning); i++) {
        rn_markup_cell(d, rn_slice_of(name));
        rn_markup_cell(d, rn_slice_of(meaning));
    }
    rn_markup_table_close(d);
    rn_markup_heading(d, RN_SLICE("When you are refused"));
    rn_markup_paragraph(d, rn_slice_of(rn_publish_advice));
    rn_markup_paragraph(d, RN_SLICE("With curl:"));
    rn_markup_code(d, "sh", curl);
    rn_markup_paragraph(d, RN_SLICE("In Python:"));
    rn_markup_code(d, "python", python);
    rn_markup_paragraph(d, RN_SLICE("In JavaScript:"));
    rn_markup_code(d, "javascript", javascript);
}
