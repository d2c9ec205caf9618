/* The addon's entry, the conversion of arguments and results, and libbpf's log. */
#include "addon.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libbpf's warnings (the verifier log among them) of the calling thread, instead of on stderr. */
static _Thread_local char *log_text;
static _Thread_local size_t log_size;

static int collect(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (level != LIBBPF_WARN)
		return 0;

	va_list again;
	va_copy(again, arguments);
	int added = vsnprintf(NULL, 0, format, arguments);
	char *longer = added < 0 ? NULL : realloc(log_text, log_size + added + 1);
	if (longer) { /* without memory the line is lost, the error itself is not */
		log_text = longer;
		vsnprintf(log_text + log_size, added + 1, format, again);
		log_size += added;
	}
	va_end(again);
	return added;
}

void clear_log(void)
{
	free(log_text);
	log_text = NULL;
	log_size = 0;
}

static napi_value read_log(napi_env env, napi_callback_info info)
{
	(void)info;
	return from_text(env, log_text ? log_text : "");
}

static napi_value error_text(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);

	char text[128];
	libbpf_strerror(to_int(env, argv[0]), text, sizeof(text));
	return from_text(env, text);
}

/* The kernel makes every BPF descriptor close-on-exec. */
static napi_value pin(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);

	char *path = to_text(env, argv[1]);
	int error = bpf_obj_pin(to_int(env, argv[0]), path);
	free(path);
	return from_int(env, error);
}

static napi_value open_pinned(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);

	char *path = to_text(env, argv[0]);
	int descriptor = bpf_obj_get(path);
	free(path);
	return from_int(env, descriptor);
}

static const struct function common_functions[] = {
	{ "readLog", read_log },
	{ "errorText", error_text },
	{ "pin", pin },
	{ "openPinned", open_pinned },
	{ NULL, NULL },
};

void read_arguments(napi_env env, napi_callback_info info, napi_value argv[MAX_ARGUMENTS])
{
	size_t count = MAX_ARGUMENTS;
	napi_get_cb_info(env, info, &count, argv, NULL, NULL);
}

int32_t to_int(napi_env env, napi_value value)
{
	int32_t number;
	if (napi_get_value_int32(env, value, &number) == napi_ok)
		return number;
	napi_throw_type_error(env, NULL, "Cannot read an argument: it must be a number");
	return -1;
}

struct bytes to_bytes(napi_env env, napi_value value)
{
	struct bytes bytes = { NULL, 0 };
	napi_typedarray_type type;
	if (napi_get_typedarray_info(env, value, &type, &bytes.size, &bytes.data, NULL, NULL) == napi_ok &&
	    type == napi_uint8_array)
		return bytes;
	napi_throw_type_error(env, NULL, "Cannot read an argument: it must be a Uint8Array");
	return (struct bytes){ NULL, 0 };
}

char *to_text(napi_env env, napi_value value)
{
	size_t length;
	if (napi_get_value_string_utf8(env, value, NULL, 0, &length) != napi_ok) {
		napi_throw_type_error(env, NULL, "Cannot read an argument: it must be a string");
		return NULL;
	}
	char *text = malloc(length + 1);
	if (text)
		napi_get_value_string_utf8(env, value, text, length + 1, &length);
	if (text && strlen(text) != length) { /* the kernel would see another path */
		free(text);
		napi_throw_type_error(env, NULL, "Cannot read an argument: it must be a string without null bytes");
		return NULL;
	}
	return text;
}

napi_value from_int(napi_env env, int64_t number)
{
	napi_value value = NULL;
	napi_create_int64(env, number, &value);
	return value;
}

napi_value from_text(napi_env env, const char *text)
{
	napi_value value = NULL;
	napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value);
	return value;
}

void set_int(napi_env env, napi_value object, const char *name, int64_t number)
{
	napi_set_named_property(env, object, name, from_int(env, number));
}

void set_text(napi_env env, napi_value object, const char *name, const char *text)
{
	napi_set_named_property(env, object, name, from_text(env, text));
}

static void export_functions(napi_env env, napi_value exports, const struct function *function)
{
	for (; function->name; function++) {
		napi_value value;
		if (napi_create_function(env, function->name, NAPI_AUTO_LENGTH, function->call, NULL, &value) == napi_ok)
			napi_set_named_property(env, exports, function->name, value);
	}
}

NAPI_MODULE_INIT()
{
	libbpf_set_print(collect);
	export_functions(env, exports, common_functions);
	export_functions(env, exports, object_functions);
	export_functions(env, exports, map_functions);
	export_functions(env, exports, program_functions);
	export_functions(env, exports, link_functions);
	export_functions(env, exports, clsact_functions);
	return exports;
}
