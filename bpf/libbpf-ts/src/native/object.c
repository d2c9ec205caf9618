/* BPF objects from the ELF image to loaded maps and programs: bpf_object__*. */
#include "addon.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static const napi_type_tag object_tag = { 0x6c69626270662d74, 0x732e6f626a656374 };

/* The handle outlives the object: what it points to is NULL once the object is closed. */
struct handle {
	struct bpf_object *object;
};

static void free_handle(napi_env env, void *data, void *hint)
{
	(void)env;
	(void)hint;
	struct handle *handle = data;
	bpf_object__close(handle->object);
	free(handle);
}

static struct handle *to_handle(napi_env env, napi_value value)
{
	static struct handle closed;
	bool tagged = false;
	void *data = NULL;
	if (napi_check_object_type_tag(env, value, &object_tag, &tagged) == napi_ok && tagged &&
	    napi_get_value_external(env, value, &data) == napi_ok)
		return data;
	napi_throw_type_error(env, NULL, "Cannot read an argument: it must be a BPF object");
	return &closed;
}

/* open(image, name): a handle */
static napi_value object_open(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);
	clear_log();

	struct bytes image = to_bytes(env, argv[0]);
	char *name = to_text(env, argv[1]);
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = name);
	struct bpf_object *object = bpf_object__open_mem(image.data, image.size, &options);
	int error = errno;
	free(name);
	if (!object)
		return from_int(env, -error);

	struct handle *handle = malloc(sizeof(*handle));
	if (!handle) {
		bpf_object__close(object);
		return from_int(env, -ENOMEM);
	}
	handle->object = object;

	napi_value external = NULL;
	if (napi_create_external(env, handle, free_handle, NULL, &external) != napi_ok)
		free_handle(env, handle, NULL);
	else
		napi_type_tag_object(env, external, &object_tag);
	return external;
}

/* `type` is NULL for one that this libbpf does not know. */
static napi_value describe(napi_env env, const char *name, const char *type)
{
	napi_value description = NULL;
	napi_create_object(env, &description);
	set_text(env, description, "name", name);
	set_text(env, description, "type", type ? type : "unknown");
	return description;
}

static napi_value describe_map(napi_env env, const struct bpf_map *map)
{
	napi_value description = describe(env, bpf_map__name(map), libbpf_bpf_map_type_str(bpf_map__type(map)));
	set_int(env, description, "keySize", bpf_map__key_size(map));
	set_int(env, description, "valueSize", bpf_map__value_size(map));
	set_int(env, description, "maxEntries", bpf_map__max_entries(map));
	return description;
}

static napi_value describe_program(napi_env env, const struct bpf_program *program)
{
	return describe(env, bpf_program__name(program), libbpf_bpf_prog_type_str(bpf_program__type(program)));
}

/* contents(handle): { maps, programs }, in the order in which load() answers their descriptors */
static napi_value object_contents(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);
	struct bpf_object *object = to_handle(env, argv[0])->object;
	if (!object)
		return from_int(env, -EBADF);

	napi_value contents = NULL, maps = NULL, programs = NULL;
	napi_create_object(env, &contents);
	napi_create_array(env, &maps);
	napi_create_array(env, &programs);
	napi_set_named_property(env, contents, "maps", maps);
	napi_set_named_property(env, contents, "programs", programs);

	uint32_t count = 0;
	struct bpf_map *map;
	bpf_object__for_each_map(map, object)
		napi_set_element(env, maps, count++, describe_map(env, map));

	count = 0;
	struct bpf_program *program;
	bpf_object__for_each_program(program, object)
		napi_set_element(env, programs, count++, describe_program(env, program));
	return contents;
}

static struct bpf_map *find_map(napi_env env, napi_value handle, napi_value name)
{
	struct bpf_object *object = to_handle(env, handle)->object;
	char *text = to_text(env, name);
	struct bpf_map *map = object && text ? bpf_object__find_map_by_name(object, text) : NULL;
	free(text);
	return map;
}

/* setMaxEntries(handle, map name, entries) */
static napi_value object_set_max_entries(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);
	clear_log();

	struct bpf_map *map = find_map(env, argv[0], argv[1]);
	return from_int(env, map ? bpf_map__set_max_entries(map, to_int(env, argv[2])) : -ENOENT);
}

/* reuseMap(handle, map name, descriptor): libbpf keeps a descriptor of its own */
static napi_value object_reuse_map(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);
	clear_log();

	struct bpf_map *map = find_map(env, argv[0], argv[1]);
	return from_int(env, map ? bpf_map__reuse_fd(map, to_int(env, argv[2])) : -ENOENT);
}

/* Copies a descriptor of libbpf's into the next free element. */
static int keep(napi_env env, napi_value list, int descriptor)
{
	uint32_t count = 0;
	int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
	if (copy < 0)
		return -errno;
	napi_get_array_length(env, list, &count);
	napi_set_element(env, list, count, from_int(env, copy));
	return 0;
}

static int keep_all(napi_env env, struct bpf_object *object, napi_value list)
{
	struct bpf_map *map;
	bpf_object__for_each_map(map, object) {
		int error = keep(env, list, bpf_map__fd(map));
		if (error)
			return error;
	}
	struct bpf_program *program;
	bpf_object__for_each_program(program, object) {
		int error = keep(env, list, bpf_program__fd(program));
		if (error)
			return error;
	}
	return 0;
}

static void close_all(napi_env env, napi_value list)
{
	uint32_t count = 0;
	napi_get_array_length(env, list, &count);
	for (uint32_t index = 0; index < count; index++) {
		napi_value element;
		napi_get_element(env, list, index, &element);
		close(to_int(env, element));
	}
}

/*
 * load(handle): the descriptors of all maps, then of all programs, now the caller's.
 * Either way the handle is closed: libbpf loads an object once, and its copy of the image is no longer needed.
 */
static napi_value object_load(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS], list = NULL;
	read_arguments(env, info, argv);
	clear_log();

	struct handle *handle = to_handle(env, argv[0]);
	if (!handle->object)
		return from_int(env, -EBADF);

	napi_create_array(env, &list);
	int error = bpf_object__load(handle->object);
	if (!error)
		error = keep_all(env, handle->object, list);
	if (error)
		close_all(env, list);
	bpf_object__close(handle->object);
	handle->object = NULL;
	return error ? from_int(env, error) : list;
}

/* close(handle) */
static napi_value object_close(napi_env env, napi_callback_info info)
{
	napi_value argv[MAX_ARGUMENTS];
	read_arguments(env, info, argv);

	struct handle *handle = to_handle(env, argv[0]);
	bpf_object__close(handle->object);
	handle->object = NULL;
	return from_int(env, 0);
}

const struct function object_functions[] = {
	{ "objectOpen", object_open },
	{ "objectContents", object_contents },
	{ "objectSetMaxEntries", object_set_max_entries },
	{ "objectReuseMap", object_reuse_map },
	{ "objectLoad", object_load },
	{ "objectClose", object_close },
	{ NULL, NULL },
};
