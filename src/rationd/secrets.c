/* SPDX-License-Identifier: Apache-2.0 */
#include "rationd/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "net/log.h"

#define FILE_MAX_BYTES 4096

char *rn_secrets_read_file(const char *path, struct ration_error *error)
{
    char bytes[FILE_MAX_BYTES + 3], problem[RN_FILE_PROBLEM], *text = NULL;
    const char *fault = NULL;
    int fd = rn_file_open(path, problem);
    size_t len = 0;
    struct stat st;
    ssize_t n;

    if (fd < 0) {
        rn_error_set(error, RATION_EIO, 0, "the file cannot be read: %s", problem);
        return NULL;
    }
    while ((n = read(fd, bytes + len, sizeof bytes - len)) != 0 && (n > 0 || errno == EINTR))
        len += n > 0 ? (size_t)n : 0;
    if (len > 0 && bytes[len - 1] == '\n')
        len -= len > 1 && bytes[len - 2] == '\r' ? 2 : 1;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)bytes[i] < ' ' || bytes[i] == 0x7f)
            fault = "the file has several lines or control characters";
    if (n != 0)
        fault = "the file cannot be read";
    else if (len == 0)
        fault = "the file is empty";
    else if (len > FILE_MAX_BYTES)
        fault = "the file has more than 4096 bytes";
    if (fault)
        rn_error_set(error, RATION_EIO, 0, "%s; write the secret into it, as one line", fault);
    else if (!(text = strndup(bytes, len)))
        rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    else if (fstat(fd, &st) == 0 && (st.st_mode & S_IROTH))
        rn_log(RN_LOG_WARN, "secret.exposed", RN_LOG_TEXT("file", rn_slice_of(path)),
               RN_LOG_TEXT("meaning", RN_SLICE("every user of this machine can read it")),
               RN_LOG_TEXT("advice", RN_SLICE("chmod o-r")));
    explicit_bzero(bytes, sizeof bytes);
    close(fd);
    return text;
}

/* --- tokens ------------------------------------------------------------------------------- */

static bool refuse_token(const struct rn_token_setting *s, const char *why)
{
    return rn_rationd_fail("%.*s:%u:%u: token %.*s: %s", (int)s->file.len, s->file.data, s->line,
                           s->column, (int)s->name.len, s->name.data, why);
}

static bool add_token(struct rn_rationd_options *o, const struct rn_token_setting *s)
{
    struct rn_token *token = &o->tokens[o->token_count];
    struct ration_error error = {.text = "out of memory"};
    char *file = NULL;

    if (s->path.data && !(file = strndup(s->path.data, s->path.len)))
        return refuse_token(s, error.text);
    *token = (struct rn_token){.name = strndup(s->name.data, s->name.len),
                               .file = file,
                               .scope = s->scope,
                               .text = file ? rn_secrets_read_file(file, &error)
                                            : strndup(s->text.data, s->text.len)};
    if (!token->name || !token->text)
        return refuse_token(s, error.text);
    for (size_t i = 0; i < o->token_count; i++) {
        if (strcmp(o->tokens[i].text, token->text) == 0) {
            snprintf(error.text, sizeof error.text,
                     "it is the same as %s; a token must have one name and one scope",
                     o->tokens[i].name);
            return refuse_token(s, error.text);
        }
    }
    o->token_count++;
    return true;
}

bool rn_secrets_read_tokens(struct rn_rationd_options *o, const struct rn_ruleset *ruleset)
{
    const char *admin = o->values[RN_SET_ADMIN_TOKEN], *file = o->values[RN_SET_ADMIN_TOKEN_FILE];
    uint32_t count = ruleset ? ruleset->token_count : 0;

    o->tokens = calloc(count + 1, sizeof *o->tokens);
    if (o->tokens && admin && *admin)
        o->tokens[o->token_count++] = (struct rn_token){.name = "admin",
                                                        .file = file && *file ? file : NULL,
                                                        .scope = RN_SCOPE_ADMIN,
                                                        .text = strdup(admin)};
    if (!o->tokens || (o->token_count && !o->tokens[0].text))
        return rn_rationd_fail("out of memory");
    for (uint32_t i = 0; i < count; i++)
        if (!add_token(o, &ruleset->tokens[i]))
            return false;
    return true;
}

void rn_secrets_reload_tokens(struct rn_token_guard *guard)
{
    for (size_t i = 0; i < guard->token_count; i++) {
        struct rn_token *token = &guard->tokens[i];
        struct ration_error error;
        char *text = token->file ? rn_secrets_read_file(token->file, &error) : NULL;
        const struct rn_token *same = text ? rn_token_find(guard, rn_slice_of(text)) : NULL;

        if (!token->file)
            continue;
        if (same && same != token)
            rn_error_set(&error, RATION_EPARSE, 0, "it is the same as %s", same->name);
        if (!text || (same && same != token))
            rn_log(RN_LOG_ERROR, "token.reload_failed",
                   RN_LOG_TEXT("token", rn_slice_of(token->name)),
                   RN_LOG_TEXT("file", rn_slice_of(token->file)),
                   RN_LOG_TEXT("error", rn_slice_of(error.text)),
                   RN_LOG_TEXT("meaning", RN_SLICE("the former token goes on working")));
        if (text && rn_token_replace(guard, token, text))
            rn_log(RN_LOG_INFO, "token.changed", RN_LOG_TEXT("token", rn_slice_of(token->name)),
                   RN_LOG_TEXT("file", rn_slice_of(token->file)));
    }
}
