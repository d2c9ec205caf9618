#!/bin/sh
# cni-ipip: the CNI plugin where a container runtime calls it, the command line otherwise.
here=$(readlink -f "$0") || exit 1
here=${here%/*}
if [ -n "${CNI_COMMAND-}" ]; then
	exec "$here/node" "$here/plugin.mjs"
fi
exec "$here/node" "$here/cli.mjs" "$@"
