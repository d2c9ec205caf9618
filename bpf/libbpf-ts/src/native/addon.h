/* What the files of the addon share: arguments in, results out, libbpf's log. */
#ifndef LIBBPF_TS_ADDON_H
#define LIBBPF_TS_ADDON_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <node_api.h>

#define MAX_ARGUMENTS 6

struct bytes {
	void *data;
	size_t size;
};

/*
 * Readers of one argument. A wrong type leaves a TypeError pending and reads as a value
 * that the kernel refuses (-1, no bytes), so that the caller needs no check of its own.
 */
int32_t to_int(napi_env env, napi_value value);
struct bytes to_bytes(napi_env env, napi_value value);
/* The text is the caller's to free(); NULL when it is not a string. */
char *to_text(napi_env env, napi_value value);

/* Missing arguments read as undefined. */
void read_arguments(napi_env env, napi_callback_info info, napi_value argv[MAX_ARGUMENTS]);

/* Every function of the addon answers a negative errno, or its result. */
napi_value from_int(napi_env env, int64_t number);
napi_value from_text(napi_env env, const char *text);

void set_int(napi_env env, napi_value object, const char *name, int64_t number);
void set_text(napi_env env, napi_value object, const char *name, const char *text);

/* Forgets what libbpf said before: called first by everything that can make libbpf speak. */
void clear_log(void);

struct function {
	const char *name;
	napi_callback call;
};

/* Lists end with an entry without a name. */
extern const struct function object_functions[];
extern const struct function map_functions[];
extern const struct function program_functions[];
extern const struct function link_functions[];
extern const struct function clsact_functions[];

#endif
