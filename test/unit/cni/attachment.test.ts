import type { AttachmentCall } from "@containernetworking/cni-types-ts";
import { expect, test } from "@jest/globals";
import { hostLinkName, linkAlias, namedAttachment, ownerOfAlias, plainAttachment } from "../../../cni/attachment.ts";

const call: AttachmentCall = {
  command: "ADD",
  containerId: "c1",
  networkNamespace: "/run/netns/pod",
  interfaceName: "eth0",
  arguments: "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=7;IP=10.0.0.1",
  path: [],
};

test("namedAttachment() knows the pod, plainAttachment() only the key", () => {
  const key = { network: "pods", containerId: "c1", interfaceName: "eth0" };
  expect(namedAttachment(call, "pods")).toEqual({ ...key, namespace: "shop", pod: "web" });
  expect(plainAttachment(call, "pods")).toEqual(key);
});

test("namedAttachment() takes half a name for none", () => {
  const half = namedAttachment({ ...call, arguments: "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=" }, "pods");
  expect(half).toEqual(plainAttachment(call, "pods"));
});

test("namedAttachment() refuses a container id that does not fit into a link's alias", () => {
  const containerId = "c".repeat(237);
  expect(() => namedAttachment({ ...call, containerId }, "pods")).toThrow(
    expect.objectContaining({ code: 4, message: expect.stringContaining("at most 255 bytes") }),
  );
  expect(namedAttachment({ ...call, containerId: containerId.slice(1) }, "pods").containerId).toHaveLength(236);
});

// Calico's names, so that a cluster that moves over finds its links under the names it knows.
test.each([
  ["default", "nginx", "calic440f455693"],
  ["kube-system", "coredns-5d78c9869d-abcde", "cali4d5f75c480c"],
  ["test", "run0", "cali44de7a17f0b"],
])("hostLinkName() of %s/%s is %s", (namespace, pod, name) => {
  expect(hostLinkName({ ...plainAttachment(call, "pods"), namespace, pod })).toBe(name);
});

test("hostLinkName() goes by container and interface where no pod is named", () => {
  const names = ["eth0", "net1"].map((interfaceName) => hostLinkName(plainAttachment({ ...call, interfaceName }, "p")));
  expect(new Set(names).size).toBe(2);
  expect(names).toEqual(names.map(() => expect.stringMatching(/^cali[0-9a-f]{11}$/)));
});

test("ownerOfAlias() reads what linkAlias() wrote and nothing else", () => {
  expect(ownerOfAlias(linkAlias(plainAttachment(call, "pods")))).toEqual(plainAttachment(call, "pods"));
  const keys = ["", "c1", "c1/eth0", "pods/c1/", "pods//eth0", "/c1/eth0", "pods/c1/eth0/more"];
  for (const alias of [undefined, "", "pods/c1/eth0", ...keys.map((key) => `cni-ipip:${key}`)]) {
    expect(ownerOfAlias(alias)).toBeUndefined();
  }
});
