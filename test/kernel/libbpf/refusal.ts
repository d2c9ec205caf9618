/** The error of a call that must be refused. */
import { BpfError } from "libbpf-ts";

export function refusal(call: () => unknown): BpfError {
  try {
    call();
  } catch (error) {
    if (error instanceof BpfError) {
      return error;
    }
    throw error;
  }
  throw new Error("Cannot show the refusal: the call was accepted");
}
