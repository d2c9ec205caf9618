/** Starts other programs: the only file that does. */
import { StringDecoder } from "node:string_decoder";
import { execa, type Subprocess } from "execa";

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
  /** The program sees exactly `env`: nothing of our own environment, and no locale. */
  readonly onlyEnv?: boolean;
  /** Ends the program when it aborts: by SIGTERM, and by SIGKILL 5 s later. What it started is not awaited. */
  readonly signal?: AbortSignal;
  /** A descriptor of ours that the program gets as number 3, and all that it starts, unless it closes it. */
  readonly descriptor?: number;
  /** How long output is read after the program's end, where what it left behind holds it open; to its end unless given. */
  readonly lingerMs?: number;
  /** Characters of each output, 100 million unless given: a program that prints more is ended. */
  readonly outputLimit?: number;
  readonly cwd?: string;
  /** Output goes straight to our own standard output and error and is not collected. */
  readonly inheritOutput?: boolean;
  /** Receives standard output and standard error, piece by piece as they come. */
  readonly onOutput?: (text: string) => void;
  /** Ends the program when its time is over or this process ends; SIGTERM unless given. */
  readonly killSignal?: NodeJS.Signals;
}

export interface Output {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program that runs beside this one. It is killed when this process ends, also by SIGINT or SIGTERM. */
export interface Process {
  /** Undefined when the program could not be started; `ended` then throws. */
  readonly pid: number | undefined;
  /** Settles at the program's end, as `run` does. */
  readonly ended: Promise<Output>;
  /** Sends a signal; does nothing when the program is gone. */
  kill(signal: NodeJS.Signals): void;
}

const defaultOutputLimit = 100_000_000;

/** Runs a program to its end in the C locale. Throws when it cannot be started, is killed, or exits with another code than allowed. */
export function run(command: Command): Promise<Output> {
  return start(command).ended;
}

/** Starts a program in the C locale and leaves it running. */
export function start(command: Command): Process {
  const {
    file,
    args,
    input,
    timeoutMs,
    env,
    cwd,
    inheritOutput = false,
    onOutput,
    killSignal,
    onlyEnv = false,
    signal,
    descriptor,
    lingerMs,
    outputLimit = defaultOutputLimit,
  } = command;
  const output = inheritOutput ? "inherit" : "pipe";
  const stdin = input === undefined ? "ignore" : "pipe";
  const inherited = descriptor === undefined ? [] : [descriptor as never]; // execa's types lack numbers from the fourth on
  const subprocess = execa(file, args, {
    reject: false,
    env: onlyEnv ? { ...env } : { LC_ALL: "C", ...env },
    extendEnv: !onlyEnv,
    stdio: [stdin, output, output, ...inherited],
    maxBuffer: outputLimit,
    ...(input === undefined ? {} : { input }),
    ...(timeoutMs === undefined ? {} : { timeout: timeoutMs }),
    ...(cwd === undefined ? {} : { cwd }),
    ...(killSignal === undefined ? {} : { killSignal }),
    ...(signal === undefined ? {} : { cancelSignal: signal }),
  });
  for (const stream of [subprocess.stdout, subprocess.stderr]) {
    // A piece may end inside a character.
    const decoder = new StringDecoder();
    stream?.on("data", (piece) => onOutput?.(decoder.write(piece)));
  }
  const stopWatching = signal && closeOutputWhenAborted(subprocess, signal);
  if (lingerMs !== undefined) {
    closeOutputAfter(subprocess, lingerMs);
  }
  const ended = subprocess.then((result) => checked(command, result)).finally(stopWatching);
  // A program that is stopped on purpose ends with an error that its starter may not care for.
  ended.catch(() => undefined);
  return { pid: subprocess.pid, ended, kill: (signal) => void subprocess.kill(signal) };
}

/** Programs that it left behind can hold its output open for any time. */
function closeOutputWhenAborted(subprocess: Subprocess, signal: AbortSignal): () => void {
  const closeIfOver = () => {
    if (signal.aborted && (subprocess.exitCode !== null || subprocess.signalCode !== null)) {
      closeOutput(subprocess);
    }
  };
  subprocess.once("exit", closeIfOver);
  signal.addEventListener("abort", closeIfOver);
  return () => signal.removeEventListener("abort", closeIfOver);
}

function closeOutputAfter(subprocess: Subprocess, lingerMs: number): void {
  subprocess.once("exit", () => {
    // On a busy node the time may be over before anything was read: what is there by then is read in between.
    const timer = setTimeout(() => setImmediate(closeOutput, subprocess), lingerMs);
    subprocess.once("close", () => clearTimeout(timer));
  });
}

function closeOutput({ stdout, stderr }: Subprocess): void {
  stdout?.destroy();
  stderr?.destroy();
}

interface Ending {
  /** Undefined when the program was killed or never started. */
  readonly exitCode?: number | undefined;
  readonly timedOut: boolean;
  readonly isMaxBuffer: boolean;
  readonly shortMessage?: string | undefined;
  readonly stdout?: unknown;
  readonly stderr?: unknown;
}

function checked(
  { file, args, okExitCodes = [], timeoutMs, outputLimit = defaultOutputLimit }: Command,
  result: Ending,
): Output {
  const { exitCode, timedOut, isMaxBuffer, shortMessage } = result;
  const stdout = String(result.stdout ?? "");
  const stderr = String(result.stderr ?? "");
  const isInLimits = !timedOut && !isMaxBuffer;
  if (exitCode !== undefined && isInLimits && (exitCode === 0 || okExitCodes.includes(exitCode))) {
    return { exitCode, stdout, stderr };
  }
  const ending = stderr.trim() || (exitCode === undefined ? shortMessage : `exit status ${exitCode}`);
  const tooMuch = isMaxBuffer && `more output than ${outputLimit} characters, the limit`;
  const tooLong = timedOut && `no end after ${timeoutMs} ms, the limit`;
  const reason = tooLong || tooMuch || ending;
  throw new Error(`Cannot run "${[file, ...args].join(" ")}": ${reason}`, { cause: result });
}
