/** Errors as the CNI specification reports them: CNI spec 1.1.0, section "Error". */
import { z } from "zod";
import { withoutNulls } from "./absent.ts";

export const CniCode = {
  /** The plugin does not speak the version that was asked for. */
  IncompatibleVersion: 1,
  /** A field of the network configuration is not supported; the message names the field and its value. */
  UnsupportedField: 2,
  /** The container does not exist: the runtime need not clean up. */
  UnknownContainer: 3,
  /** An environment variable is missing or wrong; the message names it. */
  InvalidEnvironment: 4,
  /** Reading or writing failed, for example of the configuration on standard input. */
  IoFailure: 5,
  /** Text could not be decoded, for example as JSON. */
  DecodingFailure: 6,
  /** The network configuration does not pass the plugin's checks. */
  InvalidConfiguration: 7,
  /** A passing condition: the runtime should try again later. */
  TryAgainLater: 11,
  /** STATUS: ADD would fail. */
  NotAvailable: 50,
  /** STATUS: ADD would fail, and containers that are there may have limited connectivity. */
  LimitedConnectivity: 51,
  /** From 100 on a plugin's own: no address is left to give. */
  PoolExhausted: 100,
  /** A link, route or name that the plugin needs belongs to somebody else. */
  Conflict: 101,
  /** CHECK: what there is differs from what ADD answered. */
  CheckFailed: 102,
  /** Everything without a better code, as in the reference library. */
  Internal: 999,
} as const;

const errorResult = z.looseObject({
  cniVersion: z.string().exactOptional(),
  code: z.int().min(0),
  msg: z.string(),
  details: z.string().exactOptional(),
});

/** The JSON object that a plugin prints on standard output when it fails. */
export interface CniErrorResult {
  readonly cniVersion: string;
  readonly code: number;
  readonly msg: string;
  readonly details?: string;
}

export interface CniErrorOptions {
  /** A longer description; without it the cause's message, where that says more than the error's own. */
  readonly details?: string;
  readonly cause?: unknown;
}

export class CniError extends Error {
  override readonly name = "CniError";
  /** A `CniCode`, or another number from 100 on. */
  readonly code: number;
  readonly details: string | undefined;

  constructor(code: number, message: string, { details, cause }: CniErrorOptions = {}) {
    super(message, cause === undefined ? {} : { cause });
    this.code = code;
    const reason = cause instanceof Error && cause.message !== message ? cause.message : undefined;
    this.details = details ?? reason;
  }

  /** Anything thrown as a CniError: one stays as it is, the rest becomes `Internal` with the thrown value as cause. */
  static from(thrown: unknown): CniError {
    if (thrown instanceof CniError) {
      return thrown;
    }
    const message = thrown instanceof Error ? thrown.message : String(thrown);
    const details = thrown instanceof Error && thrown.cause instanceof Error ? { details: thrown.cause.message } : {};
    return new CniError(CniCode.Internal, message, { cause: thrown, ...details });
  }

  /**
   * The error that another plugin printed, with its code, message and details as they are: `toResult` hands them through.
   *
   * @returns `undefined` when the value is not an error object
   */
  static fromResult(value: unknown): CniError | undefined {
    const { data } = errorResult.safeParse(withoutNulls(errorResult, value));
    return data && new CniError(data.code, data.msg, data.details === undefined ? {} : { details: data.details });
  }

  /** @param cniVersion the version that the runtime asked for */
  toResult(cniVersion: string): CniErrorResult {
    const { code, message: msg, details } = this;
    return { cniVersion, code, msg, ...(details === undefined ? {} : { details }) };
  }
}
