/** How clients find an API server double and are let in: its certificate, kubeconfig files and tokens. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../../../src/exec.ts";

export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

/** For 127.0.0.1, signed by itself. */
export async function makeCertificate(directory: string): Promise<Certificate> {
  const [key, cert] = [join(directory, "tls.key"), join(directory, "tls.crt")];
  await run({
    file: "openssl",
    args: [
      ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"],
      ...["-subj", "/CN=api-server", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
    ],
  });
  return { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
}

/** @returns the path of a kubeconfig, which is JSON and therefore YAML */
export function writeKubeconfig(directory: string, server: string, cert: string, user: object): string {
  const path = join(directory, "kubeconfig");
  const certificate = Buffer.from(cert).toString("base64");
  const content = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "double", cluster: { server, "certificate-authority-data": certificate } }],
    users: [{ name: "node", user }],
    contexts: [{ name: "node@double", context: { cluster: "double", user: "node" } }],
    "current-context": "node@double",
  };
  writeFileSync(path, JSON.stringify(content));
  return path;
}

/** What a pod finds in place of a kubeconfig. @returns the path that stands in front of /var/run/secrets */
export function writeServiceAccount(directory: string, cert: string, token: string): string {
  const folder = join(directory, "var/run/secrets/kubernetes.io/serviceaccount");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "ca.crt"), cert);
  writeFileSync(join(folder, "token"), token);
  writeFileSync(join(folder, "namespace"), "kube-system");
  return directory;
}
