import { describe, expect, test } from "@jest/globals";
import { nodeFields } from "../../../../src/datastore/kubernetes/node-object.ts";

const internal = (address: string) => ({ type: "InternalIP", address });

function fields(metadata: object, rest: object = {}) {
  return nodeFields({ metadata: { name: "node1", resourceVersion: "7", ...metadata }, ...rest });
}

describe("nodeFields()", () => {
  test.each([
    ["the first IPv4 InternalIP", [internal("fd00::1"), internal("10.0.0.1"), internal("10.0.0.2")], "10.0.0.1/32"],
    [
      "InternalIP, whatever else comes first",
      [{ type: "ExternalIP", address: "192.0.2.1" }, internal("10.0.0.1")],
      "10.0.0.1/32",
    ],
  ])("takes %s", (_, addresses, address) => {
    expect(fields({}, { status: { addresses } })).toEqual({ name: "node1", address });
  });

  test.each([
    ["no status", {}],
    ["no addresses", { status: {} }],
    ["IPv6 only", { status: { addresses: [internal("fd00::1")] } }],
    ["a name in place of an address", { status: { addresses: [internal("node1.example")] } }],
    ["other types only", { status: { addresses: [{ type: "ExternalIP", address: "192.0.2.1" }] } }],
  ])("knows no address of a node with %s", (_, rest) => {
    expect(fields({}, rest)).toBeUndefined();
  });

  test("prefers the annotation, and hands it on as it is", () => {
    const annotations = { "cni-ipip.io/address": "nonsense" };
    expect(fields({ annotations }, { status: { addresses: [internal("10.0.0.1")] } })).toMatchObject({
      address: "nonsense",
    });
  });

  test("has labels, further addresses and the taint of a node that is out of service", () => {
    const annotations = { "cni-ipip.io/other-addresses": " 192.0.2.1,, 198.51.100.1 ", other: "ignored" };
    const taints = [
      { key: "other" },
      { key: "node.kubernetes.io/out-of-service", value: "nodeshutdown", effect: "NoExecute" },
    ];
    const status = { addresses: [internal("10.0.0.1")] };
    expect(fields({ annotations, labels: { rack: "r1" } }, { spec: { taints }, status })).toEqual({
      name: "node1",
      address: "10.0.0.1/32",
      otherAddresses: ["192.0.2.1", "198.51.100.1"],
      labels: { rack: "r1" },
      outOfService: true,
    });
    expect(fields({}, { spec: { taints: [{ key: "node.kubernetes.io/unreachable" }] }, status })).toEqual({
      name: "node1",
      address: "10.0.0.1/32",
    });
  });

  test("refuses what is no node", () => {
    expect(() => fields({}, { status: { addresses: "10.0.0.1" } })).toThrow();
  });
});
