/**
 * The plugin as cni/main.ts runs it, watched: the name of each step is appended to the file CNI_TEST_STEPS, and so is
 * every change that is made outside a step, or as the second one of a step. The process is killed when it begins the step
 * of the number CNI_TEST_KILL_AT, counted from 1, and stops for good there with CNI_TEST_STOP_AT, a number or a name.
 */
import { appendFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { dispatch } from "../../../cni/dispatch.ts";
import type { Host } from "../../../cni/host.ts";

const { CNI_TEST_STEPS: stepsFile = "/dev/null", CNI_TEST_KILL_AT: killAt, CNI_TEST_STOP_AT: stopAt } = process.env;

/** All other methods are taken to change something. */
const readers = new Set([
  ...["links", "linkByName", "addresses", "routes", "neighbours", "close"],
  ...["leaseOf", "ownerOf", "ownersIn", "countFree"],
  ...["list", "read"],
  ...["isAttached", "policyOf", "drops", "linkIndexes", "canProtect"],
]);

let begun = 0;
let changesLeft = 0;

function note(line: string): void {
  appendFileSync(stepsFile, `${line}\n`);
}

function change(name: string): void {
  if (changesLeft === 0) {
    note(`UNGUARDED ${name}`);
  }
  changesLeft -= 1;
}

function watched<Part extends object>(part: Part): Part {
  return new Proxy(part, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== "function") {
        return value;
      }
      return (...args: unknown[]) => {
        if (!readers.has(String(key))) {
          change(String(key));
        }
        return Reflect.apply(value, target, args);
      };
    },
  });
}

function watchHost(host: Host): Host {
  return {
    ...host,
    netlink: watched(host.netlink),
    openNetlink: () => watched(host.openNetlink()),
    setSysctl(key, value) {
      change(key);
      host.setSysctl(key, value);
    },
    leases: watched(host.leases),
    endpoints: watched(host.endpoints),
    guard: host.guard && watched(host.guard),
    async step(action, run) {
      begun += 1;
      note(action);
      if (String(begun) === killAt) {
        process.kill(process.pid, "SIGKILL");
      }
      if ([String(begun), action].includes(stopAt ?? "")) {
        process.kill(process.pid, "SIGSTOP");
      }
      changesLeft = 1;
      try {
        return await run();
      } finally {
        changesLeft = 0;
      }
    },
  };
}

const ending = new AbortController();
process.on("SIGTERM", () => ending.abort(new Error("Cannot finish: stopped by SIGTERM")));
const configuration = await text(process.stdin);
const { exitCode, output } = await dispatch(
  { environment: process.env, configuration, signal: ending.signal },
  watchHost,
);
process.stdout.write(output);
process.exitCode = exitCode;
