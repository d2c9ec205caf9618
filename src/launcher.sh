#!/bin/sh
# cni-ipip: the CNI plugin where a container runtime calls it, the command line otherwise.

# Where standard output is closed Node.js opens /dev/null, and takes an answer that nobody gets for heard.
[ -e /proc/self/fd/1 ] || exec >/dev/full

here=$(readlink -f "$0") || exit 1
here=${here%/*}
if [ -n "${CNI_COMMAND-}" ]; then
	# What the runtime has for other programs of Node.js is not meant for us: options, modules, traces.
	for name in $(env | sed -n 's/^\(NODE_[A-Za-z0-9_]*\)=.*/\1/p'); do
		unset "$name"
	done
	exec "$here/node" "$here/plugin.mjs"
fi
exec "$here/node" "$here/cli.mjs" "$@"
