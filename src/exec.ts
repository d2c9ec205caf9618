/** Starts other programs: the only file that does. */
import { execa } from "execa";

export interface Command {
  readonly file: string;
  /** Never a shell string: each element reaches the program as it is. */
  readonly args: readonly string[];
  /** Text for the program's standard input. */
  readonly input?: string;
  /** Exit codes that count as success besides 0. */
  readonly okExitCodes?: readonly number[];
  readonly timeoutMs?: number;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

export interface Output {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end in the C locale. Throws when it cannot be started, is killed, or exits with another code than allowed. */
export async function run(command: Command): Promise<Output> {
  const { file, args, input, okExitCodes = [], timeoutMs, env, cwd } = command;
  const result = await execa(file, args, {
    reject: false,
    env: { LC_ALL: "C", ...env },
    ...(input === undefined ? { stdin: "ignore" as const } : { input }),
    ...(timeoutMs === undefined ? {} : { timeout: timeoutMs }),
    ...(cwd === undefined ? {} : { cwd }),
  });
  const { exitCode, stdout, stderr } = result;
  if (exitCode === undefined || (exitCode !== 0 && !okExitCodes.includes(exitCode))) {
    const reason = stderr.trim() || result.shortMessage || `exit status ${exitCode}`;
    throw new Error(`Cannot run "${[file, ...args].join(" ")}": ${reason}`, { cause: result });
  }
  return { exitCode, stdout, stderr };
}
