/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names in a client certificate as text: "CN:alice,DNS:alice.example". Bytes that could
 * make one name look like two are escaped.
 */
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "net/tls_internal.h"

/* A name that does not fit is left out: half of it could be another client's. */
#define NAMES_MAX_BYTES 1024

static void put_name(struct rn_buf *out, const char *kind, const ASN1_STRING *string)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *text = ASN1_STRING_get0_data(string);
    size_t before = out->len;

    rn_buf_putf(out, "%s%s:", before > 0 ? "," : "", kind);
    for (int i = 0; i < ASN1_STRING_length(string); i++) {
        unsigned char c = text[i];
        if (c > ' ' && c < 127 && c != ',' && c != '\\')
            rn_buf_put_char(out, (char)c);
        else
            rn_buf_put(out, (char[]){'\\', 'x', digits[c >> 4], digits[c & 15]}, 4);
    }
    if (out->len > NAMES_MAX_BYTES)
        out->len = before;
}

static void put_common_name(struct rn_buf *out, const X509 *cert)
{
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    unsigned char *text = NULL;

    if (at < 0)
        return;
    const ASN1_STRING *name = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    int len = ASN1_STRING_to_UTF8(&text, name); /* some encodings have two bytes per letter */
    if (len < 0)
        return;
    ASN1_STRING *utf8 = ASN1_STRING_new();
    if (utf8 && ASN1_STRING_set(utf8, text, len) == 1)
        put_name(out, "CN", utf8);
    else
        out->failed = true;
    ASN1_STRING_free(utf8);
    OPENSSL_free(text);
}

char *rn_tls_name(const X509 *cert)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    struct rn_buf out;

    rn_buf_init(&out);
    put_common_name(&out, cert);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        int type;
        const ASN1_STRING *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
        if (type == GEN_DNS)
            put_name(&out, "DNS", value);
        else if (type == GEN_URI)
            put_name(&out, "URI", value);
        else if (type == GEN_EMAIL)
            put_name(&out, "EMAIL", value);
    }
    GENERAL_NAMES_free(names);
    rn_buf_put_char(&out, '\0');
    if (!out.failed)
        return out.data;
    rn_buf_done(&out);
    return NULL;
}
