/** An API server double over TLS, with all that a client needs to be let in. */
import { credentialsFrom, type LoadCredentials } from "../../../src/datastore/kubernetes/credentials.ts";
import { Scratch } from "../scratch.ts";
import { type Certificate, makeCertificate, writeKubeconfig } from "./access.ts";
import { ApiServer } from "./server.ts";

let made: Promise<Certificate> | undefined;

export interface SecuredServer {
  readonly server: ApiServer;
  readonly certificate: Certificate;
  readonly credentials: LoadCredentials;
  /** Gone with the server. */
  readonly directory: string;
  close(): Promise<void>;
}

export async function startSecured(): Promise<SecuredServer> {
  const scratch = new Scratch("api-server");
  made ??= makeCertificate(scratch.path);
  const certificate = await made;
  const server = await ApiServer.start({ tls: certificate, tokens: new Set(["token"]) });
  const kubeconfig = writeKubeconfig(scratch.path, server.url, certificate.cert, { token: "token" });
  return {
    server,
    certificate,
    credentials: credentialsFrom(kubeconfig),
    directory: scratch.path,
    async close() {
      await server.goAway();
      scratch[Symbol.dispose]();
    },
  };
}
