import { expect, test } from "@jest/globals";
import { everything, type Labels, labelSelector, matches } from "../../../src/datastore/selector.ts";

const labels: Labels = { rack: "r1", gpu: "", "topology.kubernetes.io/zone": "a" };

test.each<[selector: object, isMatch: boolean]>([
  [{}, true],
  [{ matchLabels: { rack: "r1" } }, true],
  [{ matchLabels: { rack: "r1", gpu: "" } }, true],
  [{ matchLabels: { "topology.kubernetes.io/zone": "a" } }, true],
  [{ matchLabels: { rack: "r2" } }, false],
  [{ matchLabels: { rack: "" } }, false],
  [{ matchLabels: { rack: "r1", disk: "" } }, false],
  [{ matchLabels: { Rack: "r1" } }, false],
  [{ matchExpressions: [{ key: "rack", operator: "In", values: ["r2", "r1"] }] }, true],
  [{ matchExpressions: [{ key: "rack", operator: "In", values: ["r2"] }] }, false],
  [{ matchExpressions: [{ key: "gpu", operator: "In", values: [""] }] }, true],
  [{ matchExpressions: [{ key: "disk", operator: "In", values: ["", "undefined"] }] }, false],
  [{ matchExpressions: [{ key: "rack", operator: "NotIn", values: ["r2"] }] }, true],
  [{ matchExpressions: [{ key: "rack", operator: "NotIn", values: ["r2", "r1"] }] }, false],
  // As in Kubernetes: without the label it is none of the values.
  [{ matchExpressions: [{ key: "disk", operator: "NotIn", values: ["ssd"] }] }, true],
  [{ matchExpressions: [{ key: "gpu", operator: "Exists" }] }, true],
  [{ matchExpressions: [{ key: "disk", operator: "Exists" }] }, false],
  [{ matchExpressions: [{ key: "disk", operator: "DoesNotExist" }] }, true],
  [{ matchExpressions: [{ key: "gpu", operator: "DoesNotExist" }] }, false],
  // What every object has by its prototype is no label.
  [{ matchExpressions: [{ key: "constructor", operator: "Exists" }] }, false],
  [{ matchExpressions: [{ key: "toString", operator: "DoesNotExist" }] }, true],
  [{ matchLabels: { rack: "r1" }, matchExpressions: [{ key: "gpu", operator: "DoesNotExist" }] }, false],
  [{ matchLabels: { rack: "r2" }, matchExpressions: [{ key: "gpu", operator: "Exists" }] }, false],
])("matches() says of %j: %s", (selector, isMatch) => {
  expect(matches(labelSelector.parse(selector), labels)).toBe(isMatch);
});

test("everything matches an object without labels", () => {
  expect(matches(everything, {})).toBe(true);
});
