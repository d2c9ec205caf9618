/** The one error of this package: what the kernel or libbpf refused, and why. */
import { constants } from "node:os";
import { addon } from "./addon.ts";

const LOG_LINES_IN_MESSAGE = 20;

/** Errors of libbpf's own, from 4000 on: enum libbpf_errno in libbpf.h. */
const LIBBPF_NAMES = [
  ...["LIBELF", "FORMAT", "KVERSION", "ENDIAN", "INTERNAL", "RELOC", "LOAD", "VERIFY", "PROG2BIG", "KVER"],
  ...["PROGTYPE", "WRNGPID", "INVSEQ", "NLPARSE"],
];

const NAMES = new Map<number, string>([
  ...Object.entries(constants.errno)
    .map(([name, errno]) => [errno, name] as const)
    .reverse(), // of two names of one number the first counts: EAGAIN, not EWOULDBLOCK
  [constants.errno.EOPNOTSUPP, "EOPNOTSUPP"],
  [524, "ENOTSUPP"], // the kernel's own, never meant for user space but answered by the map operations
  ...LIBBPF_NAMES.map((name, index) => [4000 + index, `LIBBPF_${name}`] as const),
]);

export interface BpfErrorOptions {
  /** What is allowed, or the limit that was met. */
  readonly detail?: string;
  /** What libbpf and the verifier wrote. */
  readonly log?: string;
}

/** A refused operation. `errno` is positive; from 4000 on it is one of libbpf's own (`LIBBPF_FORMAT`). */
export class BpfError extends Error {
  override readonly name = "BpfError";
  readonly errno: number;
  /** The name of the number, e.g. "EPERM". */
  readonly code: string;
  /** The whole text of libbpf and the verifier, where there is one; its last lines are in the message. */
  readonly log?: string;

  /** `action` is what could not be done, with its target: `Cannot pin map "peers" at "/sys/fs/bpf/peers"`. */
  constructor(action: string, errno: number, { detail, log }: BpfErrorOptions = {}) {
    const code = NAMES.get(errno) ?? `errno ${errno}`;
    const reason = `${code}, ${addon.errorText(errno)}${detail === undefined ? "" : `; ${detail}`}`;
    super(`${action}: ${reason}${log ? `\n${lastLines(log)}` : ""}`);
    this.errno = errno;
    this.code = code;
    if (log) {
      this.log = log;
    }
  }
}

/** The answer of an addon function, or the error that its negative errno stands for. */
export function orThrow<Answer>(answer: Answer | number, action: () => string, options?: BpfErrorOptions): Answer {
  if (typeof answer === "number" && answer < 0) {
    throw new BpfError(action(), -answer, options);
  }
  return answer as Answer;
}

/** As `orThrow`, for functions that make libbpf write a log. */
export function orThrowWithLog<Answer>(answer: Answer | number, action: () => string): Answer {
  if (typeof answer === "number" && answer < 0) {
    throw new BpfError(action(), -answer, { log: addon.readLog().trimEnd() });
  }
  return answer as Answer;
}

function lastLines(log: string): string {
  const lines = log.split("\n");
  const kept = lines.slice(-LOG_LINES_IN_MESSAGE);
  return [...(kept.length < lines.length ? [`(${lines.length - kept.length} lines before)`] : []), ...kept].join("\n");
}
