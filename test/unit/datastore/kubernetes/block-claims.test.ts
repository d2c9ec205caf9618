import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { KubernetesApi } from "../../../../src/datastore/kubernetes/api.ts";
import { KubernetesBlockClaims } from "../../../../src/datastore/kubernetes/block-claims.ts";
import { type SecuredServer, startSecured } from "../../../lib/api-server/secured.ts";
import { type ClaimsWorld, describeBlockClaims } from "../../../lib/block-claims-contract.ts";

async function makeWorld(): Promise<ClaimsWorld> {
  const { server, credentials, close } = await startSecured();
  return {
    open: () => new KubernetesBlockClaims(new KubernetesApi(credentials)),
    put: async (name, data) => server.put("IPBlock", name, { spec: data }),
    putNode: async (name, data) => server.put("Node", name, { spec: data }),
    goAway: () => server.goAway(),
    comeBack: () => server.comeBack(),
    close,
  };
}

describeBlockClaims("kubernetes", makeWorld);

describe("KubernetesBlockClaims", () => {
  const block = { cidr: "10.100.0.0/26", node: "node1", claimOrder: 1, instance: "one" };
  let secured: SecuredServer;
  let claims: KubernetesBlockClaims;

  beforeEach(async () => {
    secured = await startSecured();
    claims = new KubernetesBlockClaims(new KubernetesApi(secured.credentials));
  });

  afterEach(() => secured.close());

  test("keeps what others wrote on the object when it replaces the block", async () => {
    const { server } = secured;
    const metadata = { labels: { team: "a" }, annotations: { note: "kept" } };
    server.put("IPBlock", "10.100.0.0-26", { metadata, spec: block });
    expect(await claims.replace(block, { ...block, claimOrder: 2 })).toBe(true);
    expect(server.store.read("ipblocks", "10.100.0.0-26")).toMatchObject({ metadata, spec: { claimOrder: 2 } });
  });

  test.each([
    ["claim", "create"],
    ["replace", "update"],
    ["give back", "delete"],
  ] as const)("%s is no success when the block changes between look and change", async (verb, request) => {
    const { server } = secured;
    const change = {
      claim: () => claims.claim(block),
      replace: () => claims.replace(block, { ...block, claimOrder: 2 }),
      "give back": () => claims.giveBack(block),
    }[verb];
    const others = { ...block, node: "node2" };
    server.put("IPBlock", "10.100.0.0-26", { spec: block });
    server.faults = [{ verb: request, kind: { delayMs: 100 } }];
    const changing = change();
    await server.seen(request);
    server.put("IPBlock", "10.100.0.0-26", { spec: others });
    expect(await changing).toBe(false);
    expect(await claims.read(block.cidr)).toEqual(others);
  });

  test("does not give back a block that was given back and claimed anew, by the same node even", async () => {
    const { server } = secured;
    server.put("IPBlock", "10.100.0.0-26", { spec: block });
    server.faults = [{ verb: "delete", kind: { delayMs: 100 } }];
    const changing = claims.giveBack(block);
    await server.seen("delete");
    server.remove("IPBlock", "10.100.0.0-26");
    server.put("IPBlock", "10.100.0.0-26", { spec: block });
    expect(await changing).toBe(false);
    expect(await claims.read(block.cidr)).toEqual(block);
  });

  test.each([401, 403, 429, 500, 503])("throws verb, block and status when the server answers %d", async (status) => {
    secured.server.faults = [{ kind: { status } }];
    await expect(claims.claim(block)).rejects.toThrow(
      new RegExp(
        `^Cannot claim the block "10.100.0.0/26": POST "/apis/.*/ipblocks": ${status} \\w+, refused on command$`,
      ),
    );
    await expect(claims.giveBack(block)).rejects.toThrow(`Cannot give back the block "10.100.0.0/26": GET "/apis`);
    await expect(claims.read(block.cidr)).rejects.toThrow(`: ${status} `);
  });

  test("throws when no answer comes in time, and has claimed nothing that it says it has", async () => {
    secured.server.faults = [{ kind: "hang" }];
    const impatient = new KubernetesBlockClaims(new KubernetesApi(secured.credentials, 300));
    await expect(impatient.claim(block)).rejects.toThrow(
      'Cannot claim the block "10.100.0.0/26": POST "/apis/cni-ipip.io/v1/ipblocks": no answer within 300 ms, the limit',
    );
    secured.server.faults = [];
    expect(await claims.read(block.cidr)).toBeUndefined();
  });

  test("throws what the server says of a block that it does not accept", async () => {
    await expect(claims.claim({ ...block, cidr: "10.100.0.0/19" })).rejects.toThrow(
      /^Cannot claim the block "10.100.0.0\/19": POST ".*": 422 Invalid, IPBlock "10.100.0.0-19" is invalid: \.spec\.cidr: /,
    );
  });
});
