import { expect, test } from "@jest/globals";
import { doubtsOf } from "../../../src/sync/doubts.ts";

const condition = (object: string) => ({ object, message: "Cannot use it" });

test("doubtsOf() knows the blocks and nodes whose documents are set aside, by CIDR and by name", () => {
  const conditions = ["block/10.100.15.128-26", "node/my-node-2", "pool/main", "block/nonsense", "settings/cluster"];
  expect(doubtsOf(conditions.map(condition))).toEqual({
    blocks: new Set(["10.100.15.128/26", "nonsense"]),
    nodes: new Set(["my-node-2"]),
  });
});

test.each(["datastore", "datastore/nodes"])("doubtsOf() knows nothing while there is a condition of %s", (object) => {
  expect(doubtsOf([condition("node/node1"), condition(object)])).toBeUndefined();
});

test("doubtsOf() has no doubts without conditions", () => {
  expect(doubtsOf([])).toEqual({ blocks: new Set(), nodes: new Set() });
});
