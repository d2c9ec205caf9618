/* BPF links: attachments that live as long as a descriptor or pin does. */
#include "addon.h"

#include <unistd.h>

/* linkCreate(program descriptor, ifindex, attach type, flags): a descriptor */
static napi_value link_create(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);

	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = to_int(env, argv[3]));
	return from_int(env, bpf_link_create(to_int(env, argv[0]), to_int(env, argv[1]), to_int(env, argv[2]), &options));
}

/* linkUpdate(descriptor, program descriptor, expected old program's descriptor or -1) */
static napi_value link_update(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);

	int expected = to_int(env, argv[2]);
	LIBBPF_OPTS(bpf_link_update_opts, options,
		.flags = expected < 0 ? 0 : BPF_F_REPLACE,
		.old_prog_fd = expected < 0 ? 0 : expected);
	return from_int(env, bpf_link_update(to_int(env, argv[0]), to_int(env, argv[1]), &options));
}

static napi_value link_detach(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);
	return from_int(env, bpf_link_detach(to_int(env, argv[0])));
}

/* linkInfo(descriptor): { type, id, programId, ifindex, attachType }, numbers of the kernel's */
static napi_value link_info(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS], description = NULL;
	read_arguments(env, info, argv);

	struct bpf_link_info link = {};
	__u32 size = sizeof(link);
	int error = bpf_obj_get_info_by_fd(to_int(env, argv[0]), &link, &size);
	if (error)
		return from_int(env, error);

	/* Headers older than 6.6 lack the tcx member { ifindex, attach_type }: it begins as the xdp member does. */
	const __u32 *device = &link.xdp.ifindex;
	napi_create_object(env, &description);
	set_int(env, description, "type", link.type);
	set_int(env, description, "id", link.id);
	set_int(env, description, "programId", link.prog_id);
	set_int(env, description, "ifindex", device[0]);
	set_int(env, description, "attachType", device[1]);
	return description;
}

/*
 * probeTcx(attach type): asks for a link on a device that cannot exist. A kernel that knows the
 * attach type looks for the device (ENODEV), one that does not refuses the type (EINVAL).
 */
static napi_value probe_tcx(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);

	const struct bpf_insn pass[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = -1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int program = bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "probe_tcx", "GPL", pass, 2, NULL);
	if (program < 0)
		return from_int(env, program);
	int error = bpf_link_create(program, INT32_MAX, to_int(env, argv[0]), NULL);
	if (error >= 0)
		close(error);
	close(program);
	return from_int(env, error);
}

const struct function link_functions[] = {
	{ "linkCreate", link_create },
	{ "linkUpdate", link_update },
	{ "linkDetach", link_detach },
	{ "linkInfo", link_info },
	{ "probeTcx", probe_tcx },
	{ NULL, NULL },
};
