/** Numbers that the addon would silently cut to 32 bits. */

/** Of what the addon takes as a C int. */
export const MAX_INT = 0x7fffffff;

/** Throws a `RangeError` unless `number` is a whole number from 1 to `most`. */
export function checkRange(what: string, number: number, most = MAX_INT): void {
  if (!Number.isInteger(number) || number < 1 || number > most) {
    throw new RangeError(`Cannot use ${what} ${number}: it must be a whole number from 1 to ${most}`);
  }
}
