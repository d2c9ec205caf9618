/** Makes an interrupted program run its exit handlers, which stop what it started and remove what it made. */

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** Turns the signals that ask a program to end into an ordinary exit, with the shell's customary exit code. */
export function exitOnSignals(): void {
  for (const [signal, exitCode] of Object.entries(EXIT_CODES)) {
    process.once(signal, () => process.exit(exitCode));
  }
}
