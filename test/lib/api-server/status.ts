/** The refusals of an API server, each with the Status object that goes with it. */
import type { Resource } from "./resources.ts";

/** https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/ */
export interface Status {
  readonly kind: "Status";
  readonly apiVersion: "v1";
  readonly metadata: Record<string, never>;
  readonly status: "Success" | "Failure";
  readonly message?: string;
  readonly reason?: string;
  readonly details?: { readonly name?: string; readonly group?: string; readonly kind?: string; readonly uid?: string };
  readonly code?: number;
}

const reasons: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
  504: "Timeout",
};

/** Ends a request. */
export class Refusal extends Error {
  readonly status: Status;

  constructor(code: number, message: string, { reason, resource, name }: RefusalDetails = {}) {
    super(message);
    this.status = {
      ...failure,
      message,
      reason: reason ?? reasons[code] ?? "Unknown",
      ...(resource && { details: { ...(name && { name }), group: resource.group, kind: resource.plural } }),
      code,
    };
  }
}

interface RefusalDetails {
  readonly reason?: string;
  readonly resource?: Resource;
  readonly name?: string;
}

const failure = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure" } as const;

export function notFound(resource: Resource, name: string): Refusal {
  return new Refusal(404, `${qualified(resource, name)} not found`, { resource, name });
}

export function alreadyExists(resource: Resource, name: string): Refusal {
  return new Refusal(409, `${qualified(resource, name)} already exists`, { reason: "AlreadyExists", resource, name });
}

export function conflict(resource: Resource, name: string, problem: string): Refusal {
  const message = `Operation cannot be fulfilled on ${qualified(resource, name)}: ${problem}`;
  return new Refusal(409, message, { reason: "Conflict", resource, name });
}

export function invalid(resource: Resource, name: string, problems: readonly string[]): Refusal {
  const message = `${resource.kind} ${JSON.stringify(name)} is invalid: ${problems.join(", ")}`;
  return new Refusal(422, message, { reason: "Invalid", resource, name });
}

export function expired(message: string): Refusal {
  return new Refusal(410, message, { reason: "Expired" });
}

function qualified({ plural, group }: Resource, name: string): string {
  return `${group === "" ? plural : `${plural}.${group}`} ${JSON.stringify(name)}`;
}
