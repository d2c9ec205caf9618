/** The tables of cni/README.md name tests that exist. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "@jest/globals";

const root = join(import.meta.dirname, "../../..");

async function testSources(): Promise<string> {
  const files = await readdir(join(root, "test"), { recursive: true });
  const tests = files.filter((file) => file.endsWith(".test.ts"));
  return (await Promise.all(tests.map((file) => readFile(join(root, "test", file), "utf8")))).join("\n");
}

test("every clause in cni/README.md names a test that exists", async () => {
  const readme = await readFile(join(root, "cni/README.md"), "utf8");
  const [, ...sections] = readme.split("\n## ");
  const rows = sections.flatMap((section) =>
    section
      .split("\n")
      .filter((line) => line.startsWith("| "))
      .slice(1),
  );
  const names = rows.map((row) => row.split("|").at(-2)?.trim() ?? "");
  expect(names.length).toBeGreaterThan(40);
  const sources = await testSources();
  expect(names.filter((name) => name === "" || !sources.includes(`"${name}"`))).toEqual([]);
});
