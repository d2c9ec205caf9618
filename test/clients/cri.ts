/** A client of the Container Runtime Interface, version 1, for the calls that a kubelet makes about a pod's network. */
import { type ClientHttp2Session, connect, constants } from "node:http2";
import { connect as connectSocket } from "node:net";
import { decode, encode, type Message, type Schema } from "./protobuf.ts";

/** Field numbers: api.proto of k8s.io/cri-api, package runtime.v1. */
const textByText: Schema = { key: [1, "text"], value: [2, "text"] };
const portMapping: Schema = { protocol: [1, "number"], containerPort: [2, "number"], hostPort: [3, "number"] };
const metadata: Schema = { name: [1, "text"], uid: [2, "text"], namespace: [3, "text"], attempt: [4, "number"] };
const sandboxConfig: Schema = {
  metadata: [1, metadata],
  hostname: [2, "text"],
  portMappings: [5, [portMapping]],
  annotations: [7, [textByText]],
  linux: [8, {}],
};
const sandboxId: Schema = { id: [1, "text"] };
const network: Schema = { ip: [1, "text"], additionalIps: [2, [{ ip: [1, "text"] }]] };
const sandboxStatus: Schema = { id: [1, "text"], state: [3, "number"], network: [5, network] };
const condition: Schema = { type: [1, "text"], status: [2, "number"], message: [4, "text"] };

/** Path, request and response of each call. */
const calls = {
  status: ["RuntimeService/Status", {}, { status: [1, { conditions: [1, [condition]] }] }],
  imageStatus: ["ImageService/ImageStatus", { image: [1, { image: [1, "text"] }] }, { image: [1, sandboxId] }],
  runPodSandbox: ["RuntimeService/RunPodSandbox", { config: [1, sandboxConfig] }, sandboxId],
  podSandboxStatus: [
    "RuntimeService/PodSandboxStatus",
    { ...sandboxId, verbose: [2, "number"] },
    { status: [1, sandboxStatus], info: [2, [textByText]] },
  ],
  listPodSandbox: ["RuntimeService/ListPodSandbox", {}, { items: [1, [sandboxId]] }],
  stopPodSandbox: ["RuntimeService/StopPodSandbox", sandboxId, {}],
  removePodSandbox: ["RuntimeService/RemovePodSandbox", sandboxId, {}],
} as const satisfies Record<string, readonly [string, Schema, Schema]>;

export class CriClient {
  readonly #session: ClientHttp2Session;

  constructor(socket: string) {
    this.#session = connect("http://localhost", { createConnection: () => connectSocket(socket) });
    // Each call in flight is told, too.
    this.#session.on("error", () => undefined);
  }

  /** @throws an error with the runtime's message */
  async call(name: keyof typeof calls, request: Message = {}): Promise<Message> {
    const [path, requestSchema, responseSchema] = calls[name];
    return decode(responseSchema, await this.#unary(`/runtime.v1.${path}`, encode(requestSchema, request)));
  }

  close(): void {
    this.#session.destroy();
  }

  /** gRPC over HTTP/2: one message there, one back, each after a byte for "not compressed" and its length. */
  #unary(path: string, message: Buffer): Promise<Buffer> {
    const stream = this.#session.request({
      [constants.HTTP2_HEADER_METHOD]: "POST",
      [constants.HTTP2_HEADER_PATH]: path,
      [constants.HTTP2_HEADER_CONTENT_TYPE]: "application/grpc",
      [constants.HTTP2_HEADER_TE]: "trailers",
    });
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(message.length, 1);
    stream.end(Buffer.concat([prefix, message]));
    return new Promise((resolve, reject) => {
      const pieces: Buffer[] = [];
      // A call that fails at once has its status in the headers.
      const ending: Message = {};
      stream.on("response", (headers) => Object.assign(ending, headers));
      stream.on("data", (piece: Buffer) => pieces.push(piece));
      stream.on("trailers", (trailers) => Object.assign(ending, trailers));
      stream.on("error", reject);
      stream.on("end", () => {
        const { "grpc-status": status, "grpc-message": reason } = ending;
        if (status === "0") {
          resolve(Buffer.concat(pieces).subarray(prefix.length));
        } else {
          reject(new Error(`Cannot call "${path}": ${decodeURIComponent(reason ?? "no answer")}`));
        }
      });
    });
  }
}
