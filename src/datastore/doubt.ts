/** When a listing is not believed: an unmounted share or a restored backup must not cut off a cluster. */

const doubted = { count: 5, share: 0.2 };

/** Whether a listing lacks too many of the objects that were `known` before it. */
export function isDoubtful(missing: number, known: number): boolean {
  return missing >= doubted.count && missing > doubted.share * known;
}
