/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON documents about rationd itself, which are part of the program: made from files of schema/
 * by embed_documents.py, the same for everybody, and without data of any caller. To serve another
 * one: a name here, its file in `documents` of meson.build, a route.
 */
#ifndef RN_FRONT_HTTP_STATIC_DOCUMENTS_H
#define RN_FRONT_HTTP_STATIC_DOCUMENTS_H

#include "front/http/conversation.h"

enum rn_static_document_name {
    RN_STATIC_DOCUMENT_OPENAPI_HTTP,
    RN_STATIC_DOCUMENT_OPENAPI_ADMIN,
    RN_STATIC_DOCUMENTS
};

struct rn_static_document {
    const char *tag; /* of its text, in quotes, as ETag has it */
    struct rn_slice text;
};

extern const struct rn_static_document rn_static_documents[RN_STATIC_DOCUMENTS];

/* Answers with the document, or with 304 if the caller has it. */
void rn_static_documents_answer(struct rn_http_context *c, enum rn_static_document_name name);

/* Whether a list of tags (RFC 9110, 13.1.1: "3", "4" or *) has this one. `weak`: also as W/"3". */
bool rn_static_documents_has_tag(struct rn_slice list, const char *tag, bool weak);

#endif
