/* Loaded programs by their descriptor or id. */
#include "addon.h"

#include <stdio.h>

/* programInfo(descriptor): { name, type, id, tag } */
static napi_value program_info(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS], description = NULL;
	read_arguments(env, info, argv);

	struct bpf_prog_info program = {};
	__u32 size = sizeof(program);
	int error = bpf_obj_get_info_by_fd(to_int(env, argv[0]), &program, &size);
	if (error)
		return from_int(env, error);

	char tag[2 * BPF_TAG_SIZE + 1];
	for (int index = 0; index < BPF_TAG_SIZE; index++)
		snprintf(tag + 2 * index, 3, "%02x", program.tag[index]);

	const char *type = libbpf_bpf_prog_type_str(program.type);
	napi_create_object(env, &description);
	set_text(env, description, "name", program.name);
	set_text(env, description, "type", type ? type : "unknown");
	set_int(env, description, "id", program.id);
	set_text(env, description, "tag", tag);
	return description;
}

/* programById(id): a descriptor */
static napi_value program_by_id(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);
	return from_int(env, bpf_prog_get_fd_by_id(to_int(env, argv[0])));
}

/* programTestRun(descriptor, data, context, repeat, data to fill): { returnValue, size, durationNs } */
static napi_value program_test_run(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS], result = NULL;
	read_arguments(env, info, argv);

	struct bytes data = to_bytes(env, argv[1]), context = to_bytes(env, argv[2]), answer = to_bytes(env, argv[4]);
	LIBBPF_OPTS(bpf_test_run_opts, run,
		.data_in = data.data,
		.data_size_in = data.size,
		.data_out = answer.data,
		.data_size_out = answer.size,
		.ctx_in = context.size ? context.data : NULL,
		.ctx_size_in = context.size,
		.repeat = to_int(env, argv[3]));
	int error = bpf_prog_test_run_opts(to_int(env, argv[0]), &run);
	if (error)
		return from_int(env, error);

	napi_create_object(env, &result);
	/* Signed: TC_ACT_UNSPEC and TCX_NEXT are -1. */
	set_int(env, result, "returnValue", (int32_t)run.retval);
	set_int(env, result, "size", run.data_size_out);
	set_int(env, result, "durationNs", run.duration);
	return result;
}

const struct function program_functions[] = {
	{ "programInfo", program_info },
	{ "programById", program_by_id },
	{ "programTestRun", program_test_run },
	{ NULL, NULL },
};
