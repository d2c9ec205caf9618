/** A directory for a while. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Removed when it is disposed of, and when the process ends before that; with `exitOnSignals` also when interrupted. */
export class Scratch {
  readonly path: string;
  readonly #remove: () => void;

  constructor(purpose: string) {
    const path = mkdtempSync(join(tmpdir(), `cni-ipip-${purpose}-`));
    this.path = path;
    this.#remove = () => rmSync(path, { recursive: true, force: true });
    process.once("exit", this.#remove);
  }

  [Symbol.dispose](): void {
    process.off("exit", this.#remove);
    this.#remove();
  }
}
