import {
  cniCommands,
  isSupportedVersion,
  requireVersionFor,
  supportedVersions,
} from "@containernetworking/cni-types-ts";
import { expect, test } from "@jest/globals";

const allowed: Readonly<Record<string, readonly string[]>> = {
  ADD: supportedVersions,
  DEL: supportedVersions,
  VERSION: supportedVersions,
  CHECK: ["0.4.0", "1.0.0", "1.1.0"],
  GC: ["1.1.0"],
  STATUS: ["1.1.0"],
};

const pairs = cniCommands.flatMap((command) => supportedVersions.map((version) => ({ command, version })));
const isAllowed = ({ command, version }: (typeof pairs)[number]) => allowed[command]?.includes(version);

test.each(pairs.filter(isAllowed))("requireVersionFor() lets $version run $command", ({ command, version }) => {
  expect(() => requireVersionFor(command, version)).not.toThrow();
});

test.each(pairs.filter((pair) => !isAllowed(pair)))(
  "requireVersionFor() refuses $command in $version",
  ({ command, version }) => {
    expect(() => requireVersionFor(command, version)).toThrow(
      expect.objectContaining({
        code: 1,
        message: `Cannot run ${command}: cniVersion is "${version}", allowed are versions from ${allowed[command]?.[0]} on`,
      }),
    );
  },
);

test.each(["", "0.3", "0.3.2", "1.1.0 ", "v1.1.0", 1, null, undefined, ["1.1.0"]])(
  "isSupportedVersion() is false for %j",
  (version) => {
    expect(isSupportedVersion(version)).toBe(false);
  },
);
