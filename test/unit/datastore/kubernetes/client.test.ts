import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { KubeConfig } from "@kubernetes/client-node";
import { KubernetesApi } from "../../../../src/datastore/kubernetes/api.ts";
import { credentialsFrom } from "../../../../src/datastore/kubernetes/credentials.ts";
import { writeKubeconfig, writeServiceAccount } from "../../../lib/api-server/access.ts";
import { type SecuredServer, startSecured } from "../../../lib/api-server/secured.ts";
import { Scratch } from "../../../lib/scratch.ts";
import { waitFor } from "../../../lib/wait.ts";

const nodes = "/api/v1/nodes";

let secured: SecuredServer;

beforeEach(async () => {
  secured = await startSecured();
});

afterEach(() => secured.close());

describe("credentials", () => {
  const environment = { ...process.env };

  afterEach(() => {
    process.env = { ...environment };
  });

  test("a kubeconfig with a token file is read anew when the token is refused, once", async () => {
    const { server, directory, certificate } = secured;
    const tokenFile = join(directory, "token");
    writeFileSync(tokenFile, "token");
    const api = new KubernetesApi(
      credentialsFrom(writeKubeconfig(directory, server.url, certificate.cert, { tokenFile: "token" })),
    );
    await api.request("GET", nodes);
    server.tokens.clear();
    server.tokens.add("rotated");
    await expect(api.request("GET", nodes)).rejects.toMatchObject({ status: 401 });
    writeFileSync(tokenFile, "rotated");
    await expect(api.request("GET", nodes)).resolves.toMatchObject({ kind: "NodeList" });
    server.tokens.clear();
    server.tokens.add("rotated again");
    writeFileSync(tokenFile, "rotated again");
    await expect(api.request("GET", nodes)).resolves.toMatchObject({ kind: "NodeList" });
  });

  test("what a pod has is enough, and its token is followed without waiting until it is old", async () => {
    const { server, directory, certificate } = secured;
    const { port, hostname } = new URL(server.url);
    const root = writeServiceAccount(directory, certificate.cert, "token");
    process.env.KUBERNETES_SERVICE_HOST = hostname;
    process.env.KUBERNETES_SERVICE_PORT = port;
    const api = new KubernetesApi(async () => {
      const config = new KubeConfig();
      config.loadFromCluster(root);
      return config;
    });
    await expect(api.request("GET", nodes)).resolves.toMatchObject({ kind: "NodeList" });
    server.tokens.clear();
    server.tokens.add("rotated");
    writeServiceAccount(directory, certificate.cert, "rotated");
    await expect(api.request("GET", nodes)).resolves.toMatchObject({ kind: "NodeList" });
  });

  test("outside of a pod a kubeconfig is needed, and one that can be used", async () => {
    using scratch = new Scratch("kubeconfig");
    const path = join(scratch.path, "kubeconfig");
    delete process.env.KUBERNETES_SERVICE_HOST;
    await expect(credentialsFrom(undefined)()).rejects.toThrow(
      "Cannot find the API server: this is no pod of Kubernetes, a kubeconfig has to be given",
    );
    await expect(credentialsFrom(path)()).rejects.toThrow(/^Cannot use the kubeconfig ".*": ENOENT/);
    for (const content of ["", "[", "{}", '{"current-context": "other"}']) {
      writeFileSync(path, content);
      await expect(credentialsFrom(path)()).rejects.toThrow(/^Cannot use the kubeconfig ".*kubeconfig": /);
    }
  });

  test("a server with another certificate is not talked to", async () => {
    const { server, directory } = secured;
    const strange = new KubernetesApi(
      credentialsFrom(writeKubeconfig(directory, server.url, "not a certificate", { token: "token" })),
    );
    await expect(strange.request("GET", nodes)).rejects.toThrow(/^GET "\/api\/v1\/nodes": /);
    expect(server.requests).toEqual([]);
  });
});

describe("KubernetesApi", () => {
  const follow = (api: KubernetesApi, signal: AbortSignal, lines: string[]) =>
    api.follow(nodes, { query: { watch: "true" }, signal, onOpen: () => {}, onLine: (line) => lines.push(line) });
  const { signal } = new AbortController();

  test("tells how long the server wants to be left alone", async () => {
    const { server, credentials } = secured;
    server.faults = [{ kind: { status: 429, retryAfterSeconds: 2 } }];
    const api = new KubernetesApi(credentials);
    const expected = { status: 429, reason: "TooManyRequests", retryAfterMs: 2000 };
    await expect(api.request("GET", nodes)).rejects.toMatchObject(expected);
    await expect(follow(api, signal, [])).rejects.toMatchObject(expected);
  });

  test("ends a request that gets no answer, a watch too, and one that nobody wants any more", async () => {
    const { server, credentials } = secured;
    server.faults = [{ kind: "hang" }];
    const api = new KubernetesApi(credentials, 100);
    const silent = 'GET "/api/v1/nodes": no answer within 100 ms, the limit';
    await expect(api.request("GET", nodes)).rejects.toThrow(silent);
    await expect(follow(api, signal, [])).rejects.toThrow(silent);
    const patient = new KubernetesApi(credentials);
    const controller = new AbortController();
    const unwanted = Promise.allSettled([
      patient.request("GET", nodes, { signal: controller.signal }),
      follow(patient, controller.signal, []),
    ]);
    controller.abort();
    expect((await unwanted).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  });

  test("follows lines for longer than an answer may take, and tells an end from a break", async () => {
    const { server, credentials } = secured;
    const api = new KubernetesApi(credentials, 900);
    const lines: string[] = [];
    const ended = api.follow(nodes, {
      query: { watch: "true", timeoutSeconds: "1", allowWatchBookmarks: "true" },
      signal,
      onOpen: () => lines.push("open"),
      onLine: (line) => lines.push(line),
    });
    await ended;
    expect(lines).toEqual(["open", expect.stringContaining('"BOOKMARK"')]);
    await waitFor(() => server.watchCount === 0, { what: "the watch ended", timeoutMs: 4000 });

    const broken = follow(api, signal, lines);
    await waitFor(() => server.watchCount === 1, { what: "the watch", timeoutMs: 4000 });
    server.dropWatches();
    await expect(broken).rejects.toThrow('GET "/api/v1/nodes": ');
  });

  test("says of an answer in another language what it can", async () => {
    using scratch = new Scratch("proxy");
    const proxy = createServer((_, response) => response.writeHead(502).end("<html>Bad Gateway</html>"));
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    const { port } = proxy.address() as AddressInfo;
    const kubeconfig = join(scratch.path, "kubeconfig");
    const cluster = { server: `http://127.0.0.1:${port}`, "insecure-skip-tls-verify": true };
    const content = {
      clusters: [{ name: "proxy", cluster }],
      users: [{ name: "nobody", user: {} }],
      contexts: [{ name: "proxy", context: { cluster: "proxy", user: "nobody" } }],
      "current-context": "proxy",
    };
    writeFileSync(kubeconfig, JSON.stringify(content));
    const api = new KubernetesApi(credentialsFrom(kubeconfig));
    await expect(api.request("GET", nodes)).rejects.toThrow('GET "/api/v1/nodes": 502 Bad Gateway');
    proxy.close();
  });
});
