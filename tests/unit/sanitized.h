/* SPDX-License-Identifier: Apache-2.0 */
/* Sanitizers make tests slower, some twenty times for threads: do less then. The full number of
 * steps runs without them. */
#ifndef RN_TESTS_SANITIZED_H
#define RN_TESTS_SANITIZED_H

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

#define SANITIZED (THREADS_SANITIZED || MEMORY_SANITIZED)
#define SCALED(full, slow) ((uint64_t)(SANITIZED ? (slow) : (full)))

#endif
