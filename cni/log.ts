/**
 * The plugin's log: lines of JSON on standard error and, if configured, in a file that is rotated. A call is short, and
 * most say nothing: what writes lines is loaded with the first one, and all are written at the call's end.
 */
import { mkdir } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { finished } from "node:stream/promises";
import { z } from "zod";
import { absolutePath } from "./path.ts";

const levels = ["debug", "info", "warn", "error"] as const;

type Level = (typeof levels)[number];

export const logConfiguration = z.looseObject({
  level: z
    .enum(levels)
    .default("warn")
    .describe(`one of ${levels.join(", ")}`),
  file: absolutePath.exactOptional().describe("an absolute path"),
  /** Of one file, in units of 1,048,576 bytes. */
  maxSizeMegabytes: z.int().min(1).max(1024).default(10).describe("a whole number from 1 to 1024"),
  /** With the one that is written; the older ones are named file.1, file.2 and so on. */
  maxFiles: z.int().min(2).max(100).default(5).describe("a whole number from 2 to 100"),
});

export type LogConfiguration = z.infer<typeof logConfiguration>;

type Write = (fields: object, sentence: string) => void;

export type Log = Readonly<Record<Level, Write>> & {
  /** Writes what was said. A file that cannot be written is a line on standard error, never a failure. */
  flush(): Promise<void>;
};

/** How long the lines of other calls may take to be written. */
const patienceMs = 5000;

export function openLog(configuration: LogConfiguration): Log {
  const said: [level: Level, fields: object, sentence: string][] = [];
  const writer = (level: Level): Write => {
    const isWanted = levels.indexOf(level) >= levels.indexOf(configuration.level);
    return (fields, sentence) => void (isWanted && said.push([level, { time: Date.now(), ...fields }, sentence]));
  };
  return {
    debug: writer("debug"),
    info: writer("info"),
    warn: writer("warn"),
    error: writer("error"),
    async flush() {
      if (said.length === 0) {
        return;
      }
      const { default: pino } = await import("pino"); // the only export that the bundle keeps
      const written: string[] = [];
      const collect = { write: (line: string) => void written.push(line) };
      const logger = pino({ level: "debug", timestamp: false }, collect);
      for (const [level, fields, sentence] of said.splice(0)) {
        logger[level](fields, sentence);
      }
      await appendRotated(written.join(""), configuration).catch((error: Error) => {
        const fields = { time: Date.now(), file: configuration.file, error: error.message };
        logger.warn(fields, "Cannot write the log file");
      });
      await writeToStandardError(written.join(""));
    },
  };
}

/** One process at a time: otherwise each that finds the file full would rotate it. */
async function appendRotated(lines: string, { file, maxSizeMegabytes, maxFiles }: LogConfiguration): Promise<void> {
  if (file === undefined) {
    return;
  }
  const { createStream } = await import("rotating-file-stream");
  const { lockName } = await import("../src/linux/lock.ts");
  const path = dirname(file);
  await mkdir(path, { recursive: true });
  const { signal } = new AbortController();
  const lock = await lockName(`${file}.lock`, basename(file), { timeoutMs: patienceMs, signal });
  if (lock === undefined) {
    throw new Error(`other calls write it since ${patienceMs} ms`);
  }
  try {
    const limits = { size: `${maxSizeMegabytes}M` as const, rotate: maxFiles - 1 };
    const stream = createStream(basename(file), { path, mode: 0o600, ...limits });
    stream.end(lines);
    await finished(stream);
  } finally {
    await lock.release();
  }
}

/** Content when nobody reads it any more. */
function writeToStandardError(text: string): Promise<void> {
  process.stderr.off("error", ignoreError).on("error", ignoreError);
  return new Promise((resolve) => process.stderr.write(text, () => resolve()));
}

function ignoreError(): void {}
