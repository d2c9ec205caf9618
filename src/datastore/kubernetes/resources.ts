/** The resources of Kubernetes that documents are made of. */
import { z } from "zod";
import { sentence } from "../../sentence.ts";
import type { Kind } from "../documents.ts";

/** Of our own resources, see deploy/crds. */
export const apiVersion = "cni-ipip.io/v1";

/** Where the objects of each kind are. */
export const paths: Readonly<Record<Kind, string>> = {
  node: "/api/v1/nodes",
  pool: `/apis/${apiVersion}/ippools`,
  block: `/apis/${apiVersion}/ipblocks`,
  settings: `/apis/${apiVersion}/clustersettings`,
};

const texts = z.record(z.string(), z.string());

/** What every object has. Versions are opaque: they can be told apart and handed back, not ordered. */
export const apiObject = z.looseObject({
  metadata: z.looseObject({
    name: z.string().min(1),
    uid: z.string().optional(),
    resourceVersion: z.string(),
    labels: texts.optional(),
    annotations: texts.optional(),
  }),
  spec: z.unknown().optional(),
});

export type ApiObject = z.infer<typeof apiObject>;

/** @throws SyntaxError with one sentence when an answer is not what an API server says */
export function understood<Schema extends z.ZodObject>(schema: Schema, answer: unknown): z.infer<Schema> {
  const { data, error } = schema.safeParse(answer, { reportInput: true });
  if (error) {
    throw new SyntaxError(`the answer cannot be understood, ${sentence(schema, error.issues)}`);
  }
  return data;
}
