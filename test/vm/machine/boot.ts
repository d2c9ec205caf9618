/** Runs one command on a stock kernel, in a small machine of qemu that sees this machine's file tree. */
import { existsSync } from "node:fs";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { start } from "../../../src/exec.ts";
import { Scratch } from "../../lib/scratch.ts";
import { buildInitramfs } from "./initramfs.ts";
import type { Kernel } from "./kernels.ts";

export interface MachineRun {
  readonly kernel: Kernel;
  /** Never a shell string: each element reaches the program as it is. */
  readonly command: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly workingDirectory: string;
  /** For all of it, from the start of qemu to its end. */
  readonly timeoutMs: number;
  /** A directory of this machine that the command finds, writable, under EXCHANGE. */
  readonly exchange?: string;
  /** Standard output and standard error of the command, as they come. */
  readonly onOutput: (text: string) => void;
}

/** Where the machine sees the directory `exchange`. */
export const EXCHANGE = "/run/machine";

/** Measured 9 s (6.12) to 15 s (5.10) on 2 idle cores: time node test/vm/machine/main.ts --kernel 5.10 -- true */
const START_LIMIT_MS = 90_000;

/**
 * Boots, runs the command, powers off. The file tree is this machine's own, read-only under an overlay in memory:
 * what the command writes outside EXCHANGE is gone afterwards. The command has no terminal, no input and no network.
 * Throws when the machine does not start, panics, or is not done in time; a failing command is a value.
 */
export async function runInMachine(request: MachineRun): Promise<{ exitCode: number }> {
  using scratch = new Scratch("machine");
  const exchange = request.exchange ?? (await mkdtemp(join(scratch.path, "exchange-")));
  const initramfs = join(scratch.path, "initramfs.cpio");
  const kernelLog = join(scratch.path, "kernel.log");
  for (const trace of ["started", "exit-code"]) {
    await rm(join(exchange, trace), { force: true });
  }
  await copyFile(join(import.meta.dirname, "stage.sh"), join(exchange, "stage.sh"));
  await writeFile(join(exchange, "command.sh"), commandScript(request));
  await buildInitramfs(request.kernel, initramfs);
  const failure = await emulate(request, { initramfs, kernelLog, exchange });
  const exitCode = await readExitCode(join(exchange, "exit-code"));
  if (exitCode === undefined) {
    const sentence = `Cannot run "${request.command.join(" ")}" on kernel ${request.kernel.release}: ${failure}`;
    throw new Error(`${sentence}; the kernel's last words:\n${await lastWords(kernelLog)}`);
  }
  return { exitCode };
}

/** A panic restarts at once, which -no-reboot turns into an end of qemu. */
const KERNEL_OPTIONS = [
  "console=ttyS0",
  "loglevel=5",
  "panic=-1",
  "oops=panic",
  "mitigations=off",
  "random.trust_cpu=on",
];

interface MachineFiles {
  readonly initramfs: string;
  readonly kernelLog: string;
  readonly exchange: string;
}

/** Runs qemu to its end. Gives what there is to say if the command turns out not to have ended. */
async function emulate({ kernel, timeoutMs, onOutput }: MachineRun, files: MachineFiles): Promise<string> {
  const qemu = start({ file: "qemu-system-x86_64", args: qemuArguments(kernel, files), onOutput });
  let reason: string | undefined;
  const stop = (why: string) => {
    reason = why;
    qemu.kill("SIGKILL");
  };
  const timers = [
    setTimeout(() => stop(`no end after ${timeoutMs} ms, the limit`), timeoutMs),
    setTimeout(() => {
      if (!existsSync(join(files.exchange, "started"))) {
        stop(`no start within ${START_LIMIT_MS} ms, the limit`);
      }
    }, START_LIMIT_MS),
  ];
  try {
    await qemu.ended;
    return "the machine stopped before the command ended";
  } catch (error) {
    return reason ?? String(error);
  } finally {
    for (const timer of timers) {
      clearTimeout(timer);
    }
  }
}

function qemuArguments(kernel: Kernel, { initramfs, kernelLog, exchange }: MachineFiles): string[] {
  const share = (tag: string, path: string, options: string) => [
    ...["-fsdev", `local,id=${tag},path=${path},security_model=none,${options}`],
    ...["-device", `virtio-9p-pci,fsdev=${tag},mount_tag=${tag}`],
  ];
  return [
    ...["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"],
    // KVM is not used even where /dev/kvm opens: on nested machines a stock kernel may hang under it.
    ...["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "3G"],
    ...["-kernel", kernel.image, "-initrd", initramfs, "-append", KERNEL_OPTIONS.join(" ")],
    ...["-serial", `file:${kernelLog}`, "-serial", "stdio"],
    // remap: files of several mounts of this machine may share inode numbers.
    ...share("host", "/", "readonly=on,multidevs=remap"),
    ...share("modules", kernel.modules, "readonly=on"),
    ...share("exchange", exchange, "readonly=off"),
  ];
}

function commandScript({ command, environment = {}, workingDirectory }: MachineRun): string {
  const assignments = Object.entries(environment).map(([name, value]) => quoted(`${name}=${value}`));
  return `cd ${quoted(workingDirectory)} && exec env ${[...assignments, ...command.map(quoted)].join(" ")}\n`;
}

/** One word for a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Undefined when the command did not end: no file, or one cut short. */
async function readExitCode(file: string): Promise<number | undefined> {
  const text = existsSync(file) ? await readFile(file, "utf8") : "";
  return /^\d+\n$/.test(text) ? Number(text) : undefined;
}

/** The twenty lines from the first complaint on, or the last twenty when the kernel did not complain. */
async function lastWords(file: string): Promise<string> {
  const lines = existsSync(file) ? (await readFile(file, "utf8")).trim().split("\n") : [];
  const complaint = lines.findIndex((line) => /Kernel panic|Oops|BUG:/.test(line));
  return (
    lines
      .slice(complaint === -1 ? -20 : complaint)
      .slice(0, 20)
      .join("\n") || "(none)"
  );
}
