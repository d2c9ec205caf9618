/** The file system that BPF objects are pinned in. */
import { mkdir, statfs } from "node:fs/promises";
import { addon, systemError } from "./addon.ts";

/** BPF_FS_MAGIC of include/uapi/linux/magic.h */
const bpfFsMagic = 0xcafe4a11;

/** Makes sure that a bpffs is mounted on the directory, which only root can then list. */
export async function ensureBpffs(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const { type } = await statfs(directory);
  if (type >>> 0 === bpfFsMagic) {
    return;
  }
  const errno = addon().mountBpffs(directory);
  if (errno !== 0) {
    throw systemError(`mount a BPF file system on "${directory}"`, errno);
  }
}
