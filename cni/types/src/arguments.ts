/** CNI_ARGS: extra arguments as KEY=VALUE pairs separated by semicolons. */
import { CniCode, CniError } from "./error.ts";
import { cut, show } from "./show.ts";

export type CniArguments = Readonly<Record<string, string>>;

const ignoreUnknown = "IgnoreUnknown";

/**
 * Reads CNI_ARGS such as `IgnoreUnknown=1;K8S_POD_NAME=web`. A value may hold "=", and of a key that comes twice the last
 * counts.
 *
 * @param known the keys that the plugin understands, upper and lower case as written; others are an error unless
 *   `IgnoreUnknown` is 1 or true, and are left out of the answer
 * @throws CniError with `InvalidEnvironment`
 */
export function parseArguments(text: string, known: readonly string[]): CniArguments {
  const pairs = text.split(";").filter((pair) => pair !== "");
  const all = new Map(pairs.map(parsePair));
  const isTolerant = parseFlag(all.get(ignoreUnknown));
  const unknown = [...all.keys()].filter((key) => key !== ignoreUnknown && !known.includes(key));
  if (unknown.length > 0 && !isTolerant) {
    throw refused(
      `unknown keys ${cut(quoteAll(unknown))}, allowed are ${quoteAll(known)}, or any with ${ignoreUnknown}=1`,
    );
  }
  return Object.fromEntries([...all].filter(([key]) => known.includes(key)));
}

function parsePair(pair: string): [key: string, value: string] {
  const equals = pair.indexOf("=");
  if (equals < 1) {
    throw refused(`${show(pair)}, allowed is KEY=VALUE;KEY=VALUE`);
  }
  return [pair.slice(0, equals), pair.slice(equals + 1)];
}

/** As the reference library reads it. */
function parseFlag(value = "false"): boolean {
  switch (value.toLowerCase()) {
    case "1":
    case "true":
      return true;
    case "0":
    case "false":
      return false;
    default:
      throw refused(`${ignoreUnknown} is ${show(value)}, allowed are 1, true, 0 and false`);
  }
}

function quoteAll(words: readonly string[]): string {
  return words.map((word) => JSON.stringify(word)).join(", ");
}

function refused(problem: string): CniError {
  return new CniError(CniCode.InvalidEnvironment, `Cannot use CNI_ARGS: ${problem}`);
}
