/**
 * What a verb does is a row of steps. Between any two of them the process can be killed, and what it leaves then must be
 * healed: tests end it exactly there, at every step that exists.
 */
export type Step = <Result>(action: string, run: () => Result | Promise<Result>) => Promise<Result>;

export const step: Step = async (_action, run) => run();

/** Steps that are not begun any more once the signal says so. */
export function stepUntil(signal: AbortSignal, each: Step): Step {
  return (action, run) => {
    signal.throwIfAborted();
    return each(action, run);
  };
}
