/**
 * Chooses objects by their labels, as Kubernetes' LabelSelector does:
 * https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
 */
import { z } from "zod";

export type Labels = Readonly<Record<string, string>>;

export const labels = z.record(z.string().min(1), z.string()).readonly();

const operators = ["In", "NotIn", "Exists", "DoesNotExist"] as const;

const expression = z
  .strictObject({
    key: z.string().min(1),
    operator: z.enum(operators),
    values: z.array(z.string()).readonly().exactOptional(),
  })
  .superRefine(({ operator, values = [] }, context) => {
    const needsValues = operator === "In" || operator === "NotIn";
    if (needsValues === (values.length === 0)) {
      const message = needsValues ? `"${operator}" needs at least one value` : `"${operator}" takes no values`;
      context.addIssue({ code: "custom", message, path: ["values"] });
    }
  });

/** All of it must match; an empty one matches everything. */
export const labelSelector = z
  .strictObject({
    matchLabels: labels.default({}),
    matchExpressions: z.array(expression).readonly().default([]),
  })
  .readonly()
  .prefault({});

export type LabelSelector = z.infer<typeof labelSelector>;

export const everything: LabelSelector = labelSelector.parse({});

export function matches({ matchLabels, matchExpressions }: LabelSelector, of: Labels): boolean {
  return (
    Object.entries(matchLabels).every(([key, value]) => labelOf(of, key) === value) &&
    matchExpressions.every((each) => meets(each, labelOf(of, each.key)))
  );
}

/** "constructor" and the like are labels only where somebody gave them. */
function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}

/** A label that is missing is none of the values. */
function meets({ operator, values = [] }: z.infer<typeof expression>, value: string | undefined): boolean {
  switch (operator) {
    case "In":
      return value !== undefined && values.includes(value);
    case "NotIn":
      return value === undefined || !values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
  }
}
