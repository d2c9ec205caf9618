/** Whether the running kernel can play the tunnel's part. */
import { run } from "../../src/exec.ts";
import { inSandbox } from "./sandbox.ts";

/** Tries to make a device of kind ipip, in a namespace that is gone afterwards. Needs root. */
export async function hasIpip(): Promise<boolean> {
  const args = ["link", "add", "probe", "type", "ipip", "local", "192.0.2.1", "remote", "192.0.2.2"];
  const { exitCode } = await run({ ...inSandbox({ file: "ip", args }), okExitCodes: [2] });
  return exitCode === 0;
}
