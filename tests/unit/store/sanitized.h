/* SPDX-License-Identifier: Apache-2.0 */
/* Sanitizers make tests slower, some twenty times for threads: do less then. */
#ifndef RN_TESTS_STORE_SANITIZED_H
#define RN_TESTS_STORE_SANITIZED_H

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define THREADS_SANITIZED 1
#else
#define THREADS_SANITIZED 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define MEMORY_SANITIZED 1
#else
#define MEMORY_SANITIZED 0
#endif

#endif
