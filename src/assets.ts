/** Finds the files that are shipped beside the program: BPF objects and native addons. */
import { basename, join } from "node:path";

// The bundles lie in dist/ themselves; from source (tests, scripts) dist/ is the sibling of src/.
const here = import.meta.dirname;
const dist = basename(here) === "src" ? join(here, "../dist") : here;

export function assetPath(name: string): string {
  return join(dist, name);
}
