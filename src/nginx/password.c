/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The password for rationd: one line of a file that is read with the configuration, as the
 * user who starts nginx. No message ever shows it.
 */
#include <sys/stat.h>

#include "nginx/module.h"
#include "wire/resp.h"

#define LINE_MAX_BYTES 4096

static ngx_int_t refuse(ngx_conf_t *cf, const ngx_str_t *file, const char *why)
{
    ngx_conf_log_error(
        NGX_LOG_EMERG, cf, 0,
        "the file of \"password_file=%V\" %s; write the password into it, as one line", file, why);
    return NGX_ERROR;
}

/* The number of bytes; -1 after logging why. LINE_MAX_BYTES + 1 means too long. */
static ssize_t read_file(ngx_conf_t *cf, const ngx_str_t *file, char bytes[LINE_MAX_BYTES + 1])
{
    int fd = open((const char *)file->data,
                  O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a FIFO reads as empty */
    ssize_t n = fd >= 0 ? read(fd, bytes, LINE_MAX_BYTES + 1) : -1;
    struct stat st;

    if (n < 0)
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "the file of \"password_file=%V\" cannot be read", file);
    else if (fstat(fd, &st) == 0 && (st.st_mode & S_IROTH))
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "the file of \"password_file=%V\" can be read by every user of this "
                           "machine",
                           file);
    if (fd >= 0)
        (void)close(fd);
    return n;
}

ngx_int_t rn_ngx_password_read(ngx_conf_t *cf, ngx_str_t file, ngx_str_t *command)
{
    char bytes[LINE_MAX_BYTES + 1];
    struct rn_buf out = {0};
    ngx_int_t code = NGX_OK;
    ssize_t n;

    if (ngx_conf_full_name(cf->cycle, &file, 1) != NGX_OK)
        return NGX_ERROR;
    n = read_file(cf, &file, bytes);
    if (n < 0)
        return NGX_ERROR;
    struct rn_slice line = {bytes, (size_t)n};

    if (n <= LINE_MAX_BYTES && n > 0 && bytes[line.len - 1] == '\n')
        line.len -= line.len > 1 && bytes[line.len - 2] == '\r' ? 2 : 1;
    if (n > LINE_MAX_BYTES)
        code = refuse(cf, &file, "has more than 4096 bytes");
    else if (line.len == 0)
        code = refuse(cf, &file, "is empty");
    else if (memchr(line.data, '\n', line.len))
        code = refuse(cf, &file, "has several lines");
    if (code == NGX_OK) {
        rn_resp_put_array(&out, 2);
        rn_resp_put_bulk(&out, RN_SLICE("AUTH"));
        rn_resp_put_bulk(&out, line);
        if (!out.failed)
            *command = rn_ngx_copy(cf->pool, out.data, out.len);
        code = command->data ? NGX_OK : NGX_ERROR;
    }
    if (out.len != 0)
        ngx_explicit_memzero(out.data, out.len);
    rn_buf_done(&out);
    ngx_explicit_memzero(bytes, sizeof bytes);
    return code;
}
