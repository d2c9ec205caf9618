/** What is wrong now and needs a person: each condition is logged once when it is raised and once when it is over. */
import type { Logger } from "pino";
import type { Condition } from "../datastore/cluster.ts";

export class Conditions {
  readonly #log: Logger;
  readonly #raised = new Map<string, string>();
  #fromDatastore: readonly Condition[] = [];

  constructor(log: Logger) {
    this.#log = log;
  }

  /** @param message undefined when all is well with the object */
  set(object: string, message: string | undefined): void {
    const before = this.#raised.get(object);
    if (message === before) {
      return;
    }
    if (before !== undefined) {
      this.#raised.delete(object);
      this.#over({ object, message: before });
    }
    if (message !== undefined) {
      this.#raised.set(object, message);
      this.#begin({ object, message });
    }
  }

  /** The datastore always tells all of its conditions. */
  setFromDatastore(conditions: readonly Condition[]): void {
    const before = this.#fromDatastore;
    this.#fromDatastore = conditions;
    for (const condition of missing(before, conditions)) {
      this.#over(condition);
    }
    for (const condition of missing(conditions, before)) {
      this.#begin(condition);
    }
  }

  /** Does the work; what goes wrong is a condition of the object until the work succeeds. @returns whether it did */
  async attempt(object: string, work: () => void | Promise<void>): Promise<boolean> {
    try {
      await work();
      this.set(object, undefined);
      return true;
    } catch (error) {
      this.#log.debug({ err: error }, "attempt failed");
      this.set(object, (error as Error).message);
      return false;
    }
  }

  #begin({ object, message }: Condition): void {
    this.#log.warn({ object }, `condition: ${message}`);
  }

  #over({ object, message }: Condition): void {
    this.#log.info({ object }, `condition is over: ${message}`);
  }
}

function missing(these: readonly Condition[], among: readonly Condition[]): Condition[] {
  const known = new Set(among.map(({ object, message }) => `${object} ${message}`));
  return these.filter(({ object, message }) => !known.has(`${object} ${message}`));
}
