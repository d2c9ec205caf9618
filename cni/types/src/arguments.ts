/** CNI_ARGS: extra arguments as KEY=VALUE pairs separated by semicolons. */
import { CniCode, CniError } from "./error.ts";

export type CniArguments = Readonly<Record<string, string>>;

const ignoreUnknown = "IgnoreUnknown";

/**
 * Reads CNI_ARGS such as `IgnoreUnknown=1;K8S_POD_NAME=web`.
 *
 * @param known the keys that the plugin understands; others are an error unless `IgnoreUnknown` is 1 or true, and are
 *   left out of the answer (CNI conventions, section "CNI_ARGS")
 * @throws CniError with `InvalidEnvironment`
 */
export function parseArguments(text: string, known: readonly string[]): CniArguments {
  const pairs = text.split(";").filter((pair) => pair !== "");
  const all = new Map(pairs.map(parsePair));
  const unknown = [...all.keys()].filter((key) => key !== ignoreUnknown && !known.includes(key));
  if (unknown.length > 0 && !isTrue(all.get(ignoreUnknown))) {
    throw new CniError(
      CniCode.InvalidEnvironment,
      `Cannot use CNI_ARGS: unknown keys ${quoteAll(unknown)}, allowed are ${quoteAll(known)}, or any with IgnoreUnknown=1`,
    );
  }
  return Object.fromEntries([...all].filter(([key]) => known.includes(key)));
}

function parsePair(pair: string): [key: string, value: string] {
  const equals = pair.indexOf("=");
  if (equals < 1) {
    throw new CniError(CniCode.InvalidEnvironment, `Cannot use CNI_ARGS: "${pair}", allowed is KEY=VALUE;KEY=VALUE`);
  }
  return [pair.slice(0, equals), pair.slice(equals + 1)];
}

function isTrue(value: string | undefined): boolean {
  return value === "1" || value?.toLowerCase() === "true";
}

function quoteAll(words: readonly string[]): string {
  return words.map((word) => `"${word}"`).join(", ");
}
