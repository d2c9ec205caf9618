/* Operations on a loaded map by its descriptor: bpf_map_*_elem, bpf_map_*_batch. */
#include "addon.h"

/* mapInfo(descriptor): { name, type, keySize, valueSize, maxEntries, id } */
static napi_value map_info(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS], description = NULL;
	read_arguments(env, info, argv);

	struct bpf_map_info map = {};
	__u32 size = sizeof(map);
	int error = bpf_obj_get_info_by_fd(to_int(env, argv[0]), &map, &size);
	if (error)
		return from_int(env, error);

	const char *type = libbpf_bpf_map_type_str(map.type);
	napi_create_object(env, &description);
	set_text(env, description, "name", map.name);
	set_text(env, description, "type", type ? type : "unknown");
	set_int(env, description, "keySize", map.key_size);
	set_int(env, description, "valueSize", map.value_size);
	set_int(env, description, "maxEntries", map.max_entries);
	set_int(env, description, "id", map.id);
	return description;
}

/* mapGet(descriptor, key, value to fill) */
static napi_value map_get(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);

	struct bytes key = to_bytes(env, argv[1]), value = to_bytes(env, argv[2]);
	return from_int(env, bpf_map_lookup_elem(to_int(env, argv[0]), key.data, value.data));
}

/* mapSet(descriptor, key, value, flags) */
static napi_value map_set(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);

	struct bytes key = to_bytes(env, argv[1]), value = to_bytes(env, argv[2]);
	return from_int(env, bpf_map_update_elem(to_int(env, argv[0]), key.data, value.data, to_int(env, argv[3])));
}

/* mapDelete(descriptor, key) */
static napi_value map_delete(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);

	return from_int(env, bpf_map_delete_elem(to_int(env, argv[0]), to_bytes(env, argv[1]).data));
}

/* mapNextKey(descriptor, key, next key to fill): a key of no bytes asks for the first */
static napi_value map_next_key(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);

	struct bytes key = to_bytes(env, argv[1]), next = to_bytes(env, argv[2]);
	return from_int(env, bpf_map_get_next_key(to_int(env, argv[0]), key.size ? key.data : NULL, next.data));
}

/* { error, done }: the kernel counts what it did, but not when it refused before it began */
static napi_value batch_result(napi_env env, int error, __u32 asked, __u32 count)
{
	napi_value result = NULL;
	napi_create_object(env, &result);
	set_int(env, result, "error", error);
	set_int(env, result, "done", error && count == asked ? 0 : count);
	return result;
}

/* mapSetBatch(descriptor, keys, values, count): { error, done } */
static napi_value map_set_batch(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);

	struct bytes keys = to_bytes(env, argv[1]), values = to_bytes(env, argv[2]);
	__u32 asked = to_int(env, argv[3]), count = asked;
	int error = bpf_map_update_batch(to_int(env, argv[0]), keys.data, values.data, &count, NULL);
	return batch_result(env, error, asked, count);
}

/* mapDeleteBatch(descriptor, keys, count): { error, done } */
static napi_value map_delete_batch(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);

	__u32 asked = to_int(env, argv[2]), count = asked;
	int error = bpf_map_delete_batch(to_int(env, argv[0]), to_bytes(env, argv[1]).data, &count, NULL);
	return batch_result(env, error, asked, count);
}

static napi_value possible_cpus(napi_env env, napi_callback_info info)
{
	(void)info;
	return from_int(env, libbpf_num_possible_cpus());
}

const struct function map_functions[] = {
	{ "mapInfo", map_info },
	{ "mapGet", map_get },
	{ "mapSet", map_set },
	{ "mapDelete", map_delete },
	{ "mapNextKey", map_next_key },
	{ "mapSetBatch", map_set_batch },
	{ "mapDeleteBatch", map_delete_batch },
	{ "possibleCpus", possible_cpus },
	{ NULL, NULL },
};
