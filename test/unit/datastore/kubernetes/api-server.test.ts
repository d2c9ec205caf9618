/** The double against what "Kubernetes API Concepts" says of the real one. */
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { CustomObjectsApi, KubeConfig } from "@kubernetes/client-node";
import { makeCertificate, writeKubeconfig } from "../../../lib/api-server/access.ts";
import { ApiServer } from "../../../lib/api-server/server.ts";
import { Scratch } from "../../../lib/scratch.ts";
import { waitFor } from "../../../lib/wait.ts";

const blocks = "/apis/cni-ipip.io/v1/ipblocks";
const nodes = "/api/v1/nodes";

interface Event {
  readonly type: string;
  readonly object: { readonly metadata: { name?: string; resourceVersion?: string }; readonly code?: number };
}

let server: ApiServer;

beforeEach(async () => {
  server = await ApiServer.start();
});

afterEach(() => server.goAway());

async function call(method: string, path: string, body?: unknown) {
  const response = await fetch(`${server.url}${path}`, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as never as Answer };
}

interface Answer {
  readonly kind: string;
  readonly apiVersion: string;
  readonly metadata: { uid: string; resourceVersion: string; name: string; continue?: string; generation: number };
  readonly spec: Record<string, unknown>;
  readonly status: unknown;
  readonly reason: string;
  readonly message: string;
  readonly items: Answer[];
}

function block(third: number, node = "node1", metadata: object = {}) {
  return {
    apiVersion: "cni-ipip.io/v1",
    kind: "IPBlock",
    metadata: { name: `10.100.${third}.0-26`, ...metadata },
    spec: { cidr: `10.100.${third}.0/26`, node },
  };
}

/** Collects the events of a watch until it ends. */
async function watch(path: string, query: string): Promise<{ events: Event[]; ended: Promise<string> }> {
  const response = await fetch(`${server.url}${path}?watch=true&${query}`);
  expect(response.status).toBe(200);
  const events: Event[] = [];
  const lines = createInterface({ input: Readable.fromWeb(response.body as never) });
  const read = async () => {
    for await (const line of lines) {
      events.push(JSON.parse(line));
    }
    return "closed by the server";
  };
  return { events, ended: read().catch(() => "broken") };
}

function names(events: readonly Event[]): string[] {
  return events.map(({ type, object }) => `${type} ${object.metadata.name ?? object.code ?? ""}`);
}

describe("versions", () => {
  test("one counter numbers all changes, and a list is of the newest", async () => {
    const created = await call("POST", blocks, block(1));
    expect(created.status).toBe(201);
    expect(created.body).toMatchObject({ kind: "IPBlock", apiVersion: "cni-ipip.io/v1", metadata: { generation: 1 } });
    server.put("Node", "node1", {});
    const list = await call("GET", blocks);
    expect(list.body.kind).toBe("IPBlockList");
    expect(list.body.items).toEqual([created.body]);
    expect(Number(list.body.metadata.resourceVersion)).toBe(Number(created.body.metadata.resourceVersion) + 1);
  });

  test("Kubernetes' own kinds leave apiVersion and kind out of the items of a list", async () => {
    server.put("Node", "node1", {});
    expect((await call("GET", nodes)).body.items[0]).not.toHaveProperty("kind");
    expect((await call("GET", `${nodes}/node1`)).body).toMatchObject({ apiVersion: "v1", kind: "Node" });
  });

  test("create refuses a name that is taken, a version, and what the schema refuses", async () => {
    await call("POST", blocks, block(1));
    const { status, body } = await call("POST", blocks, block(1, "node2"));
    expect([status, body.reason, body.message]).toEqual([
      409,
      "AlreadyExists",
      'ipblocks.cni-ipip.io "10.100.1.0-26" already exists',
    ]);
    expect((await call("POST", blocks, block(2, "node1", { resourceVersion: "7" }))).status).toBe(500);
    expect((await call("POST", blocks, block(2, ""))).body.reason).toBe("Invalid");
    expect((await call("POST", blocks, { ...block(2), kind: "IPPool" })).status).toBe(400);
    expect((await call("POST", blocks, block(2, "node1", { name: "a/b" }))).status).toBe(422);
    const unknown = { ...block(2), spec: { ...block(2).spec, color: "red" } };
    expect((await call("POST", `${blocks}?fieldValidation=Strict`, unknown)).status).toBe(400);
    expect((await call("POST", blocks, unknown)).body.spec).toEqual(block(2).spec);
  });

  test("create fills in defaults", async () => {
    const pool = {
      apiVersion: "cni-ipip.io/v1",
      kind: "IPPool",
      metadata: { name: "main" },
      spec: { cidr: "10.1.0.0/16" },
    };
    const { body } = await call("POST", "/apis/cni-ipip.io/v1/ippools", pool);
    expect(body.spec).toMatchObject({ blockSize: 26, nodeSelector: { matchLabels: {}, matchExpressions: [] } });
  });

  test("update needs the version and the uid of what is there", async () => {
    const { metadata } = (await call("POST", blocks, block(1))).body;
    const path = `${blocks}/${metadata.name}`;
    expect((await call("PUT", path, block(1, "node2"))).body.reason).toBe("Invalid");
    const other = { ...metadata, uid: "8a8b2a4e-0000-4000-8000-000000000000" };
    expect((await call("PUT", path, block(1, "node2", other))).body.reason).toBe("Conflict");
    const updated = await call("PUT", path, block(1, "node2", metadata));
    expect(updated.status).toBe(200);
    expect(updated.body.metadata).toMatchObject({ uid: metadata.uid, generation: 2 });
    const stale = await call("PUT", path, block(1, "node3", metadata));
    expect([stale.status, stale.body.reason]).toEqual([409, "Conflict"]);
    expect((await call("GET", path)).body.spec).toEqual(block(1, "node2").spec);
    const { name: _, ...unnamed } = metadata;
    expect((await call("PUT", `${blocks}/10.100.2.0-26`, block(2, "node1", unnamed))).status).toBe(404);
    expect((await call("PUT", `${blocks}/10.100.2.0-26`, block(1, "node1", metadata))).status).toBe(400);
  });

  test("an update that changes nothing makes no version, and status is written apart", async () => {
    const { metadata } = (await call("POST", blocks, block(1))).body;
    const path = `${blocks}/${metadata.name}`;
    const same = await call("PUT", path, block(1, "node1", metadata));
    expect(same.body.metadata.resourceVersion).toBe(metadata.resourceVersion);
    const status = { conditions: [] };
    const ignored = await call("PUT", path, { ...block(1, "node1", metadata), status });
    expect(ignored.body.status).toBeUndefined();
    const written = await call("PUT", `${path}/status`, { ...block(1, "node2", metadata), status });
    expect(written.body).toMatchObject({ spec: { node: "node1" }, status, metadata: { generation: 1 } });
  });

  test("delete obeys its preconditions", async () => {
    const { metadata } = (await call("POST", blocks, block(1))).body;
    const path = `${blocks}/${metadata.name}`;
    for (const preconditions of [{ uid: "other" }, { resourceVersion: "7" }]) {
      const { status, body } = await call("DELETE", path, { preconditions });
      expect([status, body.reason]).toEqual([409, "Conflict"]);
    }
    const { uid, resourceVersion } = metadata;
    const { status, body } = await call("DELETE", path, { preconditions: { uid, resourceVersion } });
    expect([status, body.kind, body.status]).toEqual([200, "Status", "Success"]);
    expect((await call("DELETE", path)).status).toBe(404);
    expect((await call("GET", path)).body.reason).toBe("NotFound");
  });
});

describe("lists in pieces", () => {
  beforeEach(() => {
    for (const third of [1, 2, 3]) {
      server.put("IPBlock", `10.100.${third}.0-26`, { spec: block(third).spec });
    }
  });

  test("show the moment of the first piece", async () => {
    const first = await call("GET", `${blocks}?limit=2`);
    server.remove("IPBlock", "10.100.3.0-26");
    const rest = await call("GET", `${blocks}?limit=2&continue=${first.body.metadata.continue}`);
    expect([...first.body.items, ...rest.body.items].map(({ spec }) => spec.cidr)).toEqual(
      [1, 2, 3].map((third) => `10.100.${third}.0/26`),
    );
    expect(rest.body.metadata.resourceVersion).toBe(first.body.metadata.resourceVersion);
    expect(rest.body.metadata.continue).toBeUndefined();
  });

  test("expire when their version is compacted", async () => {
    const first = await call("GET", `${blocks}?limit=2`);
    server.put("Node", "node1", {});
    server.store.compact();
    const { status, body } = await call("GET", `${blocks}?limit=2&continue=${first.body.metadata.continue}`);
    expect([status, body.reason]).toEqual([410, "Expired"]);
  });
});

describe("watches", () => {
  test("go on after the version of a list, without a gap and without what was there", async () => {
    server.put("IPBlock", "10.100.1.0-26", { spec: block(1).spec });
    const { resourceVersion } = (await call("GET", blocks)).body.metadata;
    server.put("IPBlock", "10.100.2.0-26", { spec: block(2).spec });
    server.put("Node", "node1", {});
    const { events } = await watch(blocks, `resourceVersion=${resourceVersion}`);
    server.put("IPBlock", "10.100.1.0-26", { spec: block(1, "node2").spec });
    server.remove("IPBlock", "10.100.2.0-26");
    await waitFor(() => events.length === 3, { what: "three events", timeoutMs: 4000 });
    expect(names(events)).toEqual(["ADDED 10.100.2.0-26", "MODIFIED 10.100.1.0-26", "DELETED 10.100.2.0-26"]);
    const versions = events.map(({ object }) => Number(object.metadata.resourceVersion));
    expect(versions).toEqual([...versions].sort((one, other) => one - other));
    expect(new Set(versions).size).toBe(3);
    expect(versions[2]).toBe(server.store.version);
  });

  test.each(["", "resourceVersion=0"])("begin with what there is (%s)", async (query) => {
    server.put("Node", "node1", {});
    const { events } = await watch(nodes, query);
    await waitFor(() => events.length === 1, { what: "one event", timeoutMs: 4000 });
    expect(names(events)).toEqual(["ADDED node1"]);
  });

  test("end with 410 as an event when the version is compacted, and not when it is the newest", async () => {
    const { resourceVersion } = (await call("GET", nodes)).body.metadata;
    server.put("Node", "node1", {});
    server.store.compact();
    const { events, ended } = await watch(nodes, `resourceVersion=${resourceVersion}`);
    expect(await ended).toBe("closed by the server");
    expect(names(events)).toEqual(["ERROR 410"]);
    const newest = await watch(nodes, `resourceVersion=${server.store.version}`);
    server.put("Node", "node2", {});
    await waitFor(() => newest.events.length === 1, { what: "the event after it", timeoutMs: 4000 });
    expect(names(newest.events)).toEqual(["ADDED node2"]);
  });

  test("send bookmarks to those who ask for them, and one before their time is over", async () => {
    const asking = await watch(nodes, `resourceVersion=${server.store.version}&allowWatchBookmarks=true`);
    const other = await watch(nodes, `resourceVersion=${server.store.version}`);
    const short = await watch(
      nodes,
      `resourceVersion=${server.store.version}&allowWatchBookmarks=true&timeoutSeconds=1`,
    );
    server.put("IPPool", "main", { spec: { cidr: "10.100.0.0/16" } });
    expect(await short.ended).toBe("closed by the server");
    server.sendBookmarks();
    await waitFor(() => asking.events.length === 1, { what: "a bookmark", timeoutMs: 4000 });
    for (const { events } of [asking, short]) {
      expect(events.map(({ type }) => type)).toEqual(["BOOKMARK"]);
      expect(events[0]?.object.metadata).toEqual({
        resourceVersion: String(server.store.version),
        creationTimestamp: null,
      });
    }
    expect(other.events).toEqual([]);
  });
});

describe("faults", () => {
  test("refuse with a status and Retry-After as often as told, in one kind only", async () => {
    server.faults = [{ plural: "nodes", verb: "list", times: 1, kind: { status: 429, retryAfterSeconds: 3 } }];
    expect((await call("GET", blocks)).status).toBe(200);
    const { status, headers, body } = await call("GET", nodes);
    expect([status, headers.get("retry-after"), body.reason]).toEqual([429, "3", "TooManyRequests"]);
    expect((await call("GET", nodes)).status).toBe(200);
  });

  test("drop watches, hold events back, hang, and close the port", async () => {
    const paused = await watch(nodes, "");
    server.pauseWatches();
    server.put("Node", "node1", {});
    expect((await call("GET", nodes)).body.items).toHaveLength(1);
    expect(paused.events).toEqual([]);
    server.resumeWatches();
    await waitFor(() => paused.events.length === 1, { what: "the event", timeoutMs: 4000 });
    server.dropWatches();
    expect(await paused.ended).toBe("broken");

    server.faults = [{ kind: "hang", times: 1 }];
    const hanging = call("GET", nodes).then(
      () => "answered",
      () => "broken",
    );
    await waitFor(() => server.faults[0]?.times === 0, { what: "the request", timeoutMs: 4000 });
    const { url } = server;
    await server.goAway();
    expect(await hanging).toBe("broken");
    await expect(fetch(url)).rejects.toThrow();
    await server.comeBack();
    expect(server.url).toBe(url);
    expect((await call("GET", nodes)).body.items).toHaveLength(1);
  });

  test("a path, a method or a body that nobody knows is refused", async () => {
    for (const path of ["/apis/cni-ipip.io/v1/ipblocks/a/b/c", "/api/v1/pods"]) {
      const response = await fetch(`${server.url}${path}`);
      expect([response.status, await response.text()]).toEqual([404, "404 page not found\n"]);
    }
    expect((await call("PATCH", `${nodes}/node1`, {})).status).toBe(405);
    const response = await fetch(`${server.url}${blocks}`, { method: "POST", body: "{" });
    expect(response.status).toBe(400);
  });
});

test("the client library works with it over TLS, and with a token only", async () => {
  using scratch = new Scratch("api-server");
  const certificate = await makeCertificate(scratch.path);
  await using secured = await ApiServer.start({ tls: certificate, tokens: ["first"] });
  const config = new KubeConfig();
  config.loadFromFile(writeKubeconfig(scratch.path, secured.url, certificate.cert, { token: "first" }));
  const api = config.makeApiClient(CustomObjectsApi);
  const resource = { group: "cni-ipip.io", version: "v1", plural: "ipblocks" };
  await api.createClusterCustomObject({ ...resource, body: block(1) });
  expect(await api.listClusterCustomObject(resource)).toMatchObject({ items: [block(1)] });
  await expect(api.createClusterCustomObject({ ...resource, body: block(1) })).rejects.toMatchObject({ code: 409 });
  secured.tokens.delete("first");
  await expect(api.listClusterCustomObject(resource)).rejects.toMatchObject({ code: 401 });
});
