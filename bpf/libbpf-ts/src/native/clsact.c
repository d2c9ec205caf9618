/* Filters on the ingress side of the clsact qdisc: bpf_tc_*. */
#include "addon.h"

/* clsactAttach(program descriptor, ifindex, priority, handle) */
static napi_value clsact_attach(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);
	clear_log();

	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = to_int(env, argv[1]), .attach_point = BPF_TC_INGRESS);
	int error = bpf_tc_hook_create(&hook);
	if (error && error != -EEXIST)
		return from_int(env, error);
	clear_log(); /* of the qdisc that existed */

	LIBBPF_OPTS(bpf_tc_opts, filter,
		.prog_fd = to_int(env, argv[0]),
		.priority = to_int(env, argv[2]),
		.handle = to_int(env, argv[3]),
		.flags = BPF_TC_F_REPLACE);
	return from_int(env, bpf_tc_attach(&hook, &filter));
}

/* clsactQuery(ifindex, priority, handle): the program's id */
static napi_value clsact_query(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);
	clear_log();

	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = to_int(env, argv[0]), .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .priority = to_int(env, argv[1]), .handle = to_int(env, argv[2]));
	int error = bpf_tc_query(&hook, &filter);
	return from_int(env, error ? error : (int64_t)filter.prog_id);
}

/* clsactDetach(ifindex, priority, handle) */
static napi_value clsact_detach(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);
	clear_log();

	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = to_int(env, argv[0]), .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, filter, .priority = to_int(env, argv[1]), .handle = to_int(env, argv[2]));
	return from_int(env, bpf_tc_detach(&hook, &filter));
}

const struct function clsact_functions[] = {
	{ "clsactAttach", clsact_attach },
	{ "clsactQuery", clsact_query },
	{ "clsactDetach", clsact_detach },
	{ NULL, NULL },
};
