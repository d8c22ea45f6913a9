/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http_text.h"

#define N RN_HTTP_TOKEN
#define V RN_HTTP_TARGET
#define T V | N
#define H T | RN_HTTP_HOST
#define M H | RN_HTTP_METHOD
const uint8_t rn_http_class[256] = {
    ['!'] = T, ['"'] = V, ['#'] = N, ['$'] = T,  ['%'] = T, ['&'] = T, ['\''] = T, ['('] = V,
    [')'] = V, ['*'] = T, ['+'] = T, [','] = V,  ['-'] = M, ['.'] = H, ['/'] = V,  ['0'] = H,
    ['1'] = H, ['2'] = H, ['3'] = H, ['4'] = H,  ['5'] = H, ['6'] = H, ['7'] = H,  ['8'] = H,
    ['9'] = H, [':'] = V, [';'] = V, ['<'] = V,  ['='] = V, ['>'] = V, ['?'] = V,  ['@'] = V,
    ['A'] = M, ['B'] = M, ['C'] = M, ['D'] = M,  ['E'] = M, ['F'] = M, ['G'] = M,  ['H'] = M,
    ['I'] = M, ['J'] = M, ['K'] = M, ['L'] = M,  ['M'] = M, ['N'] = M, ['O'] = M,  ['P'] = M,
    ['Q'] = M, ['R'] = M, ['S'] = M, ['T'] = M,  ['U'] = M, ['V'] = M, ['W'] = M,  ['X'] = M,
    ['Y'] = M, ['Z'] = M, ['['] = V, ['\\'] = V, [']'] = V, ['^'] = T, ['_'] = H,  ['`'] = T,
    ['a'] = H, ['b'] = H, ['c'] = H, ['d'] = H,  ['e'] = H, ['f'] = H, ['g'] = H,  ['h'] = H,
    ['i'] = H, ['j'] = H, ['k'] = H, ['l'] = H,  ['m'] = H, ['n'] = H, ['o'] = H,  ['p'] = H,
    ['q'] = H, ['r'] = H, ['s'] = H, ['t'] = H,  ['u'] = H, ['v'] = H, ['w'] = H,  ['x'] = H,
    ['y'] = H, ['z'] = H, ['{'] = V, ['|'] = T,  ['}'] = V, ['~'] = H,
};
#undef M
#undef H
#undef T
#undef V
#undef N

bool rn_http_text_is_host(struct rn_slice text)
{
    const char *p = text.data, *end = p + text.len, *port;

    if (text.len == 0)
        return false;
    if (*p == '[') { /* [2001:db8::1]: only its characters are checked */
        const char *start = ++p;

        while (p < end && (rn_http_class[(unsigned char)*p] & RN_HTTP_HOST || *p == ':'))
            p++;
        if (p == end || *p++ != ']' || p - 1 == start)
            return false;
    } else if ((p = rn_http_pass(p, RN_HTTP_HOST)) == text.data) {
        return false;
    }
    if (p == end)
        return true;
    if (*p != ':')
        return false;
    for (port = ++p; rn_http_is_digit(*p); p++)
        ;
    return p == end && p - port >= 1 && p - port <= 5;
}
