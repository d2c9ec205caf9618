/** A sandbox for container runtimes, which also keep things in places that no option of theirs changes. */
import type { Command } from "../../src/exec.ts";
import { inSandbox } from "./sandbox.ts";

/**
 * The CNI library keeps results in /var/lib/cni. The low-level runtime, though told to use no cgroups, looks at what is
 * mounted where they would be.
 */
const PREPARE = `set -e
mount -t tmpfs -o mode=755 tmpfs /var/lib
mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
exec "$@"`;

/** As `inSandbox`, with /var/lib and /sys/fs/cgroup empty. */
export function inRuntimeSandbox(command: Command): Command {
  return inSandbox({ ...command, file: "sh", args: ["-c", PREPARE, "runtime-sandbox", command.file, ...command.args] });
}
