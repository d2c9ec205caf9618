/**
 * Requests to Kubernetes' API server, in JSON.
 *
 * Credentials, TLS and proxies are the client library's. Its own requests and watches are not used: they have no time
 * limit, a watch that gets no answer cannot be ended, and errors come without what the server says of them.
 */
import { type IncomingMessage, type OutgoingHttpHeaders, request as requestHttp } from "node:http";
import { type RequestOptions, request as requestHttps } from "node:https";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import type { KubeConfig } from "@kubernetes/client-node";
import { z } from "zod";
import type { LoadCredentials } from "./credentials.ts";

export type Method = "GET" | "POST" | "PUT" | "DELETE";
export type Query = Readonly<Record<string, string>>;

/** A request that was not carried out, or of which that is not known. */
export class ApiError extends Error {
  /** Of the answer; undefined where there was none. */
  readonly status: number | undefined;
  /** Kubernetes' word for it, "AlreadyExists". */
  readonly reason: string | undefined;
  /** How long the server wants to be left alone, in milliseconds. */
  readonly retryAfterMs: number;

  constructor(message: string, answer: Partial<Answer>, options?: ErrorOptions) {
    super(message, options);
    this.status = answer.status;
    this.reason = answer.reason;
    this.retryAfterMs = answer.retryAfterMs ?? 0;
  }
}

type Answer = Pick<ApiError, "status" | "reason" | "retryAfterMs">;

/** Milliseconds. A list of 500 nodes takes a busy API server some seconds. */
const defaultTimeoutMs = 30_000;

/** Milliseconds of silence after which the kernel asks whether the other end is still there. */
const keepAliveMs = 30_000;

const failure = z.looseObject({ message: z.string().optional(), reason: z.string().optional() });

export class KubernetesApi {
  readonly #load: LoadCredentials;
  readonly #timeoutMs: number;
  #config: KubeConfig | undefined;

  constructor(load: LoadCredentials, timeoutMs: number = defaultTimeoutMs) {
    this.#load = load;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * @returns the answer's body
   * @throws ApiError when the server refuses, cannot be reached, or has not answered within the time limit
   */
  async request(method: Method, path: string, { query, body, signal }: RequestDetails = {}): Promise<unknown> {
    const limit = AbortSignal.timeout(this.#timeoutMs);
    const signals = AbortSignal.any(signal ? [limit, signal] : [limit]);
    return this.#described(`${method} "${path}"`, limit, async () => {
      const response = await this.#send({ method, path, query, body, signal: signals });
      return JSON.parse(await text(response));
    });
  }

  /**
   * Calls `onOpen` when the server answers, then `onLine` with each line of an answer that goes on for as long as the
   * server and `signal` want, and as `onLine` does not throw. Resolves when the server ends it.
   *
   * @throws ApiError as `request` does, and when the connection breaks
   */
  async follow(path: string, { query, signal, onOpen, onLine }: FollowDetails): Promise<void> {
    const opening = new AbortController();
    const limit = setTimeout(() => opening.abort(), this.#timeoutMs);
    await this.#described(`GET "${path}"`, opening.signal, async () => {
      const request = { method: "GET" as const, path, query, signal: AbortSignal.any([opening.signal, signal]) };
      const response = await this.#send(request).finally(() => clearTimeout(limit));
      onOpen();
      // The lines end with the connection, however that ends; the response tells the one from the other.
      const broken = new Promise<never>((_, reject) => response.on("error", reject));
      const read = async () => {
        for await (const line of createInterface({ input: response })) {
          onLine(line);
        }
        if (!response.complete) {
          throw new Error("the connection broke");
        }
      };
      await Promise.race([read(), broken]).finally(() => response.destroy());
    });
  }

  async #send(request: SentRequest): Promise<IncomingMessage> {
    const isFresh = this.#config === undefined;
    let response = await this.#sendOnce(request);
    if (response.statusCode === 401 && !isFresh) {
      response.destroy();
      // The token may have been rotated since it was read.
      this.#config = undefined;
      response = await this.#sendOnce(request);
    }
    const { statusCode: status = 0, headers } = response;
    if (status >= 200 && status < 300) {
      return response;
    }
    if (status === 401) {
      this.#config = undefined;
    }
    const { message, reason } = readFailure(await text(response));
    const seconds = Number(headers["retry-after"] ?? 0);
    throw new ApiError(`${status} ${reason ?? response.statusMessage}${message ? `, ${message}` : ""}`, {
      status,
      reason,
      retryAfterMs: Number.isFinite(seconds) ? seconds * 1000 : 0,
    });
  }

  async #sendOnce({ method, path, query, body, signal }: SentRequest): Promise<IncomingMessage> {
    this.#config ??= await this.#load();
    const url = new URL(`${this.#config.getCurrentCluster()?.server}${path}?${new URLSearchParams(query)}`);
    const content = body === undefined ? undefined : JSON.stringify(body);
    const options: RequestOptions = {
      method,
      signal,
      headers: { accept: "application/json", ...(content !== undefined && contentHeaders(content)) },
    };
    await this.#config.applyToHTTPSOptions(options);
    return new Promise((resolve, reject) => {
      const request = (url.protocol === "https:" ? requestHttps : requestHttp)(url, options, resolve);
      request.on("socket", (socket) => socket.setKeepAlive(true, keepAliveMs));
      request.on("error", reject);
      request.end(content);
    });
  }

  /** Whatever goes wrong says which request it was. */
  async #described<Result>(what: string, limit: AbortSignal, work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      const { message } = error as Error;
      const problem = limit.aborted ? `no answer within ${this.#timeoutMs} ms, the limit` : message;
      throw new ApiError(`${what}: ${problem}`, error instanceof ApiError ? error : {}, { cause: error });
    }
  }
}

export interface RequestDetails {
  readonly query?: Query;
  readonly body?: object;
  readonly signal?: AbortSignal;
}

export interface FollowDetails {
  readonly query: Query;
  readonly signal: AbortSignal;
  readonly onOpen: () => void;
  readonly onLine: (line: string) => void;
}

interface SentRequest {
  readonly method: Method;
  readonly path: string;
  readonly query?: Query | undefined;
  readonly body?: object | undefined;
  readonly signal: AbortSignal;
}

function contentHeaders(content: string): OutgoingHttpHeaders {
  // With a length, which Node.js leaves out of a DELETE: the server would take the body for a second request.
  return { "content-type": "application/json", "content-length": Buffer.byteLength(content) };
}

/** What a proxy says in place of the server need not be JSON. */
function readFailure(body: string): z.infer<typeof failure> {
  try {
    return failure.parse(JSON.parse(body));
  } catch {
    return {};
  }
}
