/**
 * The verbs of an API server other than watch, with their checks, after "Kubernetes API Concepts":
 * https://kubernetes.io/docs/reference/using-api/api-concepts/
 *
 * Not there: patch, finalizers, admission, selectors, CEL rules.
 */
import { isDeepStrictEqual } from "node:util";
import { schemaOf } from "./crds.ts";
import { apiVersionOf, type Resource } from "./resources.ts";
import { problems, pruned, unknownFields, withDefaults } from "./schema.ts";
import { alreadyExists, conflict, expired, invalid, notFound, Refusal, type Status } from "./status.ts";
import type { ApiObject, ObjectStore } from "./store.ts";

export interface ObjectList {
  readonly kind: string;
  readonly apiVersion: string;
  readonly metadata: {
    readonly resourceVersion: string;
    readonly continue?: string;
    readonly remainingItemCount?: number;
  };
  readonly items: readonly ApiObject[];
}

/** A list that is read in pieces shows one moment: that of its first piece. */
interface Rest {
  readonly version: number;
  readonly objects: readonly ApiObject[];
}

export class Verbs {
  readonly #store: ObjectStore;
  readonly #rests = new Map<string, Rest>();

  constructor(store: ObjectStore) {
    this.#store = store;
  }

  get(resource: Resource, name: string): ApiObject {
    const object = this.#store.read(resource.plural, name);
    if (!object) {
      throw notFound(resource, name);
    }
    return typed(resource, object);
  }

  list(resource: Resource, query: URLSearchParams): ObjectList {
    const { version, objects } = this.#startOf(resource, query.get("continue"));
    const limit = Number(query.get("limit") ?? 0) || Number.POSITIVE_INFINITY;
    const remaining = objects.slice(limit);
    return {
      kind: `${resource.kind}List`,
      apiVersion: apiVersionOf(resource),
      metadata: {
        resourceVersion: String(version),
        ...(remaining.length > 0 && {
          continue: this.#keep({ version, objects: remaining }),
          remainingItemCount: remaining.length,
        }),
      },
      // Kubernetes' own kinds leave apiVersion and kind out of the items of a list.
      items: objects.slice(0, limit).map((object) => (resource.isCustom ? typed(resource, object) : object)),
    };
  }

  create(resource: Resource, body: unknown, query: URLSearchParams): ApiObject {
    const object = this.#checked(resource, body, query);
    const { name, resourceVersion } = object.metadata;
    if (resourceVersion !== undefined && resourceVersion !== "") {
      throw new Refusal(500, "resourceVersion should not be set on objects to be created");
    }
    if (this.#store.read(resource.plural, name)) {
      throw alreadyExists(resource, name);
    }
    const { status: _, ...withoutStatus } = object;
    return typed(resource, this.#store.write(resource.plural, withoutStatus));
  }

  replace(resource: Resource, name: string, body: unknown, query: URLSearchParams, isStatus: boolean): ApiObject {
    const object = this.#checked(resource, body, query);
    if (object.metadata.name !== name) {
      throw new Refusal(
        400,
        `the name of the object (${object.metadata.name}) does not match the name on the URL (${name})`,
      );
    }
    const before = this.get(resource, name);
    const { uid, resourceVersion } = object.metadata;
    if (resource.isCustom && !resourceVersion) {
      throw invalid(resource, name, ["metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"]);
    }
    if (uid && uid !== before.metadata.uid) {
      throw conflict(
        resource,
        name,
        `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${before.metadata.uid}`,
      );
    }
    if (resourceVersion && resourceVersion !== before.metadata.resourceVersion) {
      throw conflict(
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
      );
    }
    const { uid: _uid, creationTimestamp: _time, generation: _generation, ...metadata } = object.metadata;
    const next = isStatus
      ? { ...before, status: object.status }
      : { ...object, metadata: { ...before.metadata, ...metadata }, status: before.status };
    // What changes nothing makes no new version and no event.
    return isDeepStrictEqual(typed(resource, asJson(next)), before)
      ? before
      : typed(resource, this.#store.write(resource.plural, asJson(next)));
  }

  delete(resource: Resource, name: string, options: DeleteOptions): Status {
    const { uid, resourceVersion } = this.get(resource, name).metadata;
    const { preconditions = {} } = options;
    if (preconditions.uid !== undefined && preconditions.uid !== uid) {
      throw conflict(
        resource,
        name,
        `Precondition failed: UID in precondition: ${preconditions.uid}, UID in object meta: ${uid}`,
      );
    }
    if (preconditions.resourceVersion !== undefined && preconditions.resourceVersion !== resourceVersion) {
      throw conflict(
        resource,
        name,
        `Precondition failed: ResourceVersion in precondition: ${preconditions.resourceVersion}, ResourceVersion in object meta: ${resourceVersion}`,
      );
    }
    this.#store.remove(resource.plural, name);
    const details = { name, group: resource.group, kind: resource.plural, ...(uid !== undefined && { uid }) };
    return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details };
  }

  #startOf(resource: Resource, token: string | null): Rest {
    if (token === null || token === "") {
      return { version: this.#store.version, objects: this.#store.list(resource.plural) };
    }
    const rest = this.#rests.get(token);
    if (!rest || rest.version < this.#store.compacted) {
      throw expired("The provided continue parameter is too old to display a consistent list result.");
    }
    return rest;
  }

  #keep(rest: Rest): string {
    const token = Buffer.from(`${rest.version}/${this.#rests.size}`).toString("base64url");
    this.#rests.set(token, rest);
    return token;
  }

  /** Checked as what it is to become: unknown fields removed, or refused where the client asks for that; defaults filled in. */
  #checked(resource: Resource, body: unknown, query: URLSearchParams): ApiObject {
    const object = body as Partial<ApiObject> | null;
    if (object?.apiVersion !== apiVersionOf(resource) || object.kind !== resource.kind) {
      throw new Refusal(400, `the object must be of ${apiVersionOf(resource)}, Kind=${resource.kind}`);
    }
    const name = object.metadata?.name ?? "";
    if (!isSubdomain(name)) {
      throw invalid(resource, name, [
        `metadata.name: Invalid value: ${JSON.stringify(name)}: a lowercase RFC 1123 subdomain`,
      ]);
    }
    const { apiVersion: _version, kind: _kind, metadata, ...own } = object as ApiObject;
    if (!resource.isCustom) {
      return { ...own, metadata };
    }
    const schema = schemaOf(resource.kind);
    const unknown = unknownFields(schema, own);
    if (unknown.length > 0 && query.get("fieldValidation") === "Strict") {
      throw new Refusal(
        400,
        `strict decoding error: ${unknown.map((path) => `unknown field "${path.slice(1)}"`).join(", ")}`,
      );
    }
    const stored = withDefaults(schema, pruned(schema, own)) as object;
    const found = problems(schema, stored);
    if (found.length > 0) {
      throw invalid(resource, name, found);
    }
    return { ...stored, metadata };
  }
}

export interface DeleteOptions {
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
}

/** As a response on its own, or a watch, has it. */
export function typed(resource: Resource, object: ApiObject): ApiObject {
  return { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object };
}

function asJson(object: ApiObject): ApiObject {
  return JSON.parse(JSON.stringify(object));
}

function isSubdomain(name: string): boolean {
  return name.length <= 253 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(name);
}
