/** What an API server double has: Kubernetes' nodes and the custom resources of the product. */
import { crds } from "./crds.ts";

export interface Resource {
  /** "" for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly isCustom: boolean;
}

export const resources: readonly Resource[] = [
  { group: "", version: "v1", plural: "nodes", kind: "Node", isCustom: false },
  ...[...crds.values()].map(({ group, names, versions }) => ({
    group,
    version: versions[0]?.name ?? "",
    plural: names.plural,
    kind: names.kind,
    isCustom: true,
  })),
];

export function apiVersionOf({ group, version }: Resource): string {
  return group === "" ? version : `${group}/${version}`;
}

/** "/api/v1/nodes", "/apis/cni-ipip.io/v1/ippools" */
export function pathOf(resource: Resource): string {
  return `${resource.group === "" ? "/api" : "/apis"}/${apiVersionOf(resource)}/${resource.plural}`;
}

export interface Target {
  readonly resource: Resource;
  /** Undefined for the whole collection. */
  readonly name: string | undefined;
  readonly isStatus: boolean;
}

/** Undefined for a path that leads to nothing. */
export function targetOf(path: string): Target | undefined {
  for (const resource of resources) {
    const [name, subresource, ...more] = path.startsWith(`${pathOf(resource)}/`)
      ? path.slice(pathOf(resource).length + 1).split("/")
      : [];
    if (path === pathOf(resource)) {
      return { resource, name: undefined, isStatus: false };
    }
    if (name && more.length === 0 && (subresource === undefined || subresource === "status")) {
      return { resource, name: decodeURIComponent(name), isStatus: subresource === "status" };
    }
  }
  return undefined;
}
