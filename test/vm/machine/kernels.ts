/** Fetches Debian's stock kernels, unpacked and ready to boot, into .cache/kernels. */
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../../../src/exec.ts";

/** Short version → the suites that carry it, each after the name of the suite of this machine on whose mirror it lies. */
const SUITES = {
  "5.10": { main: ["bullseye"], security: ["bullseye-security"] },
  "6.1": { main: ["bookworm"], security: ["bookworm-security"] },
  "6.12": { main: ["bookworm-backports"], security: [] },
} as const;

export type KernelName = keyof typeof SUITES;
export const KERNEL_NAMES = Object.keys(SUITES) as KernelName[];

export interface Kernel {
  readonly name: KernelName;
  /** As `uname -r` prints it. */
  readonly release: string;
  readonly image: string;
  /** The directory that is /lib/modules/<release> in the machine. */
  readonly modules: string;
}

export const CACHE = join(import.meta.dirname, "../../../.cache");
const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";

/** Gives a kernel, from the cache when it is there. Only amd64: other architectures would need their own qemu machine. */
export async function fetchKernel(name: KernelName, onProgress: (line: string) => void): Promise<Kernel> {
  const directory = join(CACHE, "kernels", name);
  if (!existsSync(directory)) {
    if (process.arch !== "x64") {
      throw new Error(`Cannot boot a stock kernel: this machine is "${process.arch}", only "x64" is supported`);
    }
    onProgress(`fetching Debian's kernel ${name} (about 70 MB, once)`);
    await unpack(name, directory);
  }
  const [release] = await readdir(join(directory, "lib/modules"));
  if (release === undefined) {
    throw new Error(
      `Cannot use the kernel in "${directory}": it has no modules; remove the directory to fetch it again`,
    );
  }
  return {
    name,
    release,
    image: join(directory, "boot", `vmlinuz-${release}`),
    modules: join(directory, "lib/modules", release),
  };
}

/** Built beside and renamed, so that a directory under its final name is always whole. */
async function unpack(name: KernelName, directory: string): Promise<void> {
  const scratch = `${directory}.${process.pid}`;
  try {
    await mkdir(join(scratch, "lists/partial"), { recursive: true });
    await mkdir(join(scratch, "archives/partial"), { recursive: true });
    const options = await aptOptions(name, scratch);
    // A suite that the mirror does not carry makes this fail; whether a kernel was found at all is asked below.
    const update = await run({ file: "apt-get", args: [...options, "update"], okExitCodes: [100] });
    const image = await imagePackage(name, options, update.stderr);
    await run({ file: "apt-get", args: [...options, "download", image], cwd: scratch });
    const [archive] = (await readdir(scratch)).filter((file) => file.endsWith(".deb"));
    const root = join(scratch, "root");
    await run({ file: "dpkg", args: ["-x", join(scratch, String(archive)), root] });
    const [release] = await readdir(join(root, "lib/modules"));
    // The package leaves modules.dep to its post-installation script.
    await run({ file: "depmod", args: ["-b", root, String(release)] });
    await rename(root, directory);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Options that give apt its own sources, lists and cache; proxies and credentials stay those of the machine. */
async function aptOptions(name: KernelName, scratch: string): Promise<string[]> {
  const suites = SUITES[name];
  const lines = (await mirrors()).flatMap(({ uri, kind }) =>
    suites[kind].map((suite) => `deb [signed-by=${KEYRING}] ${uri} ${suite} main`),
  );
  await writeFile(join(scratch, "sources.list"), `${lines.join("\n")}\n`);
  const settings = {
    "Dir::Etc::sourcelist": join(scratch, "sources.list"),
    "Dir::Etc::sourceparts": "/dev/null",
    "Dir::State::lists": join(scratch, "lists"),
    // Installed packages of this machine must not decide which kernel is the candidate.
    "Dir::State::status": "/dev/null",
    "Dir::Cache": scratch,
    "Acquire::Languages": "none",
    "APT::Sandbox::User": "root",
  };
  return ["-q", ...Object.entries(settings).flatMap(([key, value]) => ["-o", `${key}=${value}`])];
}

/** Where this machine gets its own Debian packages from: the archive, and its security updates. */
async function mirrors(): Promise<{ uri: string; kind: "main" | "security" }[]> {
  const codename = /^VERSION_CODENAME=(.+)$/m.exec(await readFile("/etc/os-release", "utf8"))?.[1];
  const { stdout } = await run({
    file: "apt-get",
    args: ["indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages", "Component: main"],
  });
  const kinds = new Map([
    [codename, "main" as const],
    [`${codename}-security`, "security" as const],
  ]);
  const found = stdout.split("\n").flatMap((line) => {
    const [release, uri] = line.split(" ");
    const kind = kinds.get(release);
    return kind === undefined || uri === undefined ? [] : [{ uri, kind }];
  });
  if (!found.some(({ kind }) => kind === "main")) {
    throw new Error(`Cannot find a Debian mirror: apt lists no "${codename} main"; run "apt-get update" first`);
  }
  return found;
}

/** The newest concrete image that the metapackage linux-image-amd64 stands for. */
async function imagePackage(name: KernelName, options: string[], complaints: string): Promise<string> {
  const { stdout } = await run({
    file: "apt-cache",
    args: [...options, "show", "--no-all-versions", "linux-image-amd64"],
    okExitCodes: [100],
  });
  const image = /^Depends: (linux-image-\S+)/m.exec(stdout)?.[1];
  if (image === undefined) {
    throw new Error(`Cannot find kernel ${name}: the mirrors offer no linux-image-amd64; ${complaints.trim()}`);
  }
  return image;
}
