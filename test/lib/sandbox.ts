/** Runs a program in namespaces of its own, so that the machine is untouched and nothing outlives the program. */
import type { Command } from "../../src/exec.ts";

/**
 * The mounts that must not be the machine's own: /sys shows the links of the namespace it was mounted in, bpffs holds
 * pins, and /run the names of network namespaces and what nodes keep at run time. The program is not the first process (no exec), since a
 * first process must reap orphans and is deaf to signals it has no handler for.
 */
const PREPARE = `set -e
mount -t sysfs sysfs /sys
mount -t bpf bpf /sys/fs/bpf
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/netns
ip link set lo up
"$@"
exit $?`;

/**
 * The same command with its own mount, network and process namespaces. When it ends, by whatever means, the kernel ends
 * every process it started and drops every link, network namespace and pin it made. Needs root.
 */
export function inSandbox(command: Command): Command {
  const namespaces = ["--mount", "--propagation", "private", "--net", "--pid", "--fork", "--mount-proc"];
  return {
    ...command,
    file: "unshare",
    args: [...namespaces, "--kill-child", "sh", "-c", PREPARE, "sandbox", command.file, ...command.args],
    // unshare holds SIGTERM back while it waits for its child.
    killSignal: "SIGKILL",
  };
}
