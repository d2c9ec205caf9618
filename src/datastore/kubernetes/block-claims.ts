/** Block claims in the kubernetes kind of datastore: one IPBlock a block, whose name only one object can have. */
import { isDeepStrictEqual } from "node:util";
import type { BlockClaims } from "../block-claims.ts";
import { type Block, blockName, parseDocument } from "../documents.ts";
import { ApiError, type KubernetesApi } from "./api.ts";
import { type ApiObject, apiObject, apiVersion, paths, understood } from "./resources.ts";

export class KubernetesBlockClaims implements BlockClaims {
  readonly #api: KubernetesApi;

  constructor(api: KubernetesApi) {
    this.#api = api;
  }

  claim(block: Block): Promise<boolean> {
    const body = { apiVersion, kind: "IPBlock", metadata: { name: blockName(block.cidr) }, spec: block };
    return attempt("claim", block.cidr, () =>
      isDone(this.#api.request("POST", paths.block, { body }), ["AlreadyExists"]),
    );
  }

  replace(expected: Block, next: Block): Promise<boolean> {
    return this.#change("replace", expected, (path, object) =>
      // With the version that was compared: the server refuses where somebody was faster.
      this.#api.request("PUT", path, { body: { ...object, spec: next } }),
    );
  }

  giveBack(expected: Block): Promise<boolean> {
    return this.#change("give back", expected, (path, { metadata: { uid, resourceVersion } }) =>
      this.#api.request("DELETE", path, { body: { preconditions: { uid, resourceVersion } } }),
    );
  }

  async read(cidr: string): Promise<Block | undefined> {
    return attempt("read", cidr, async () => {
      const object = await this.#get(pathOf(cidr));
      return object && blockIn(object);
    });
  }

  async hasNode(name: string): Promise<boolean> {
    try {
      return (await this.#get(`${paths.node}/${name}`)) !== undefined;
    } catch (error) {
      throw new Error(`Cannot look for the node "${name}": ${(error as Error).message}`, { cause: error });
    }
  }

  /** Changes the block where it is as expected. */
  #change(
    verb: string,
    expected: Block,
    change: (path: string, object: ApiObject) => Promise<unknown>,
  ): Promise<boolean> {
    return attempt(verb, expected.cidr, async () => {
      const object = await this.#get(pathOf(expected.cidr));
      if (!object || !isBlock(object, expected)) {
        return false;
      }
      return isDone(change(pathOf(expected.cidr), object), ["Conflict", "NotFound"]);
    });
  }

  async #get(path: string): Promise<ApiObject | undefined> {
    try {
      return understood(apiObject, await this.#api.request("GET", path));
    } catch (error) {
      if (error instanceof ApiError && error.reason === "NotFound") {
        return undefined;
      }
      throw error;
    }
  }
}

async function attempt<Result>(verb: string, cidr: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw new Error(`Cannot ${verb} the block "${cidr}": ${(error as Error).message}`, { cause: error });
  }
}

/** False where the server refuses for one of these reasons. */
async function isDone(request: Promise<unknown>, reasons: readonly string[]): Promise<boolean> {
  try {
    await request;
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.reason !== undefined && reasons.includes(error.reason)) {
      return false;
    }
    throw error;
  }
}

function isBlock(object: ApiObject, expected: Block): boolean {
  try {
    return isDeepStrictEqual(blockIn(object), expected);
  } catch {
    return false;
  }
}

/** @throws SyntaxError when the object says something wrong */
function blockIn({ metadata: { name }, spec }: ApiObject): Block {
  try {
    return parseDocument("block", name, spec);
  } catch (error) {
    throw new SyntaxError(`"ipblocks/${name}" is no block, ${(error as Error).message}`);
  }
}

function pathOf(cidr: string): string {
  return `${paths.block}/${blockName(cidr)}`;
}
