// The system calls that Node.js lacks. Unless it says otherwise each returns 0 or the errno value; the TypeScript beside
// names it.
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <node_api.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>

static napi_value errno_or_zero(napi_env env, int result)
{
	napi_value value;
	napi_create_int32(env, result == 0 ? 0 : errno, &value);
	return value;
}

static int argument_fd(napi_env env, napi_callback_info info)
{
	napi_value argument;
	size_t count = 1;
	int32_t fd = -1;

	napi_get_cb_info(env, info, &count, &argument, NULL, NULL);
	napi_get_value_int32(env, argument, &fd);
	return fd;
}

// setns(2) moves only the calling thread: here the one that runs JavaScript.
static napi_value set_network_namespace(napi_env env, napi_callback_info info)
{
	return errno_or_zero(env, setns(argument_fd(env, info), CLONE_NEWNET));
}

// flock(2): the lock belongs to the open file, so the kernel drops it when the process dies.
static napi_value lock_exclusively(napi_env env, napi_callback_info info)
{
	return errno_or_zero(env, flock(argument_fd(env, info), LOCK_EX | LOCK_NB));
}

// F_OFD_SETLK of fcntl(2), one byte at an offset: like flock(2) the lock belongs to the open file.
static napi_value lock_byte(napi_env env, napi_callback_info info)
{
	napi_value arguments[2];
	size_t count = 2;
	int32_t fd = -1;
	int64_t offset = 0;

	napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
	napi_get_value_int32(env, arguments[0], &fd);
	napi_get_value_int64(env, arguments[1], &offset);

	struct flock byte = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1 };

	return errno_or_zero(env, fcntl(fd, F_OFD_SETLK, &byte));
}

// Gives back all locks of bytes at once, also where another process has inherited the open file.
static napi_value unlock_bytes(napi_env env, napi_callback_info info)
{
	struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	return errno_or_zero(env, fcntl(argument_fd(env, info), F_OFD_SETLK, &all));
}

static napi_value mount_bpffs(napi_env env, napi_callback_info info)
{
	napi_value argument;
	size_t count = 1;
	char target[4096] = "";

	napi_get_cb_info(env, info, &count, &argument, NULL, NULL);
	napi_get_value_string_utf8(env, argument, target, sizeof(target), NULL);
	return errno_or_zero(env, mount("bpf", target, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700"));
}

// The port that a netlink socket is bound to, netlink(7); -1 for a descriptor of anything else.
static napi_value netlink_port(napi_env env, napi_callback_info info)
{
	struct sockaddr_nl address = { 0 };
	socklen_t size = sizeof(address);
	napi_value value;
	int result = getsockname(argument_fd(env, info), (struct sockaddr *)&address, &size);

	napi_create_int64(env, result == 0 && address.nl_family == AF_NETLINK ? (int64_t)address.nl_pid : -1, &value);
	return value;
}

// NETLINK_NO_ENOBUFS, netlink(7): messages that do not fit the receive buffer are counted, but are no error.
static napi_value ignore_overrun(napi_env env, napi_callback_info info)
{
	int on = 1;

	return errno_or_zero(
		env, setsockopt(argument_fd(env, info), SOL_NETLINK, NETLINK_NO_ENOBUFS, &on, sizeof(on)));
}

// How many messages were dropped since the socket was made: SO_MEMINFO, Linux 4.12. -1 for what is no socket.
static napi_value dropped_messages(napi_env env, napi_callback_info info)
{
	uint32_t memory[SK_MEMINFO_VARS] = { 0 };
	socklen_t size = sizeof(memory);
	napi_value value;
	int result = getsockopt(argument_fd(env, info), SOL_SOCKET, SO_MEMINFO, memory, &size);

	napi_create_int64(env, result == 0 ? (int64_t)memory[SK_MEMINFO_DROPS] : -1, &value);
	return value;
}

NAPI_MODULE_INIT()
{
	const napi_property_descriptor functions[] = {
		{ "setNetworkNamespace", NULL, set_network_namespace, NULL, NULL, NULL, napi_enumerable, NULL },
		{ "lockExclusively", NULL, lock_exclusively, NULL, NULL, NULL, napi_enumerable, NULL },
		{ "lockByte", NULL, lock_byte, NULL, NULL, NULL, napi_enumerable, NULL },
		{ "unlockBytes", NULL, unlock_bytes, NULL, NULL, NULL, napi_enumerable, NULL },
		{ "mountBpffs", NULL, mount_bpffs, NULL, NULL, NULL, napi_enumerable, NULL },
		{ "netlinkPort", NULL, netlink_port, NULL, NULL, NULL, napi_enumerable, NULL },
		{ "ignoreOverrun", NULL, ignore_overrun, NULL, NULL, NULL, napi_enumerable, NULL },
		{ "droppedMessages", NULL, dropped_messages, NULL, NULL, NULL, napi_enumerable, NULL },
	};

	napi_define_properties(env, exports, sizeof(functions) / sizeof(functions[0]), functions);
	return exports;
}
