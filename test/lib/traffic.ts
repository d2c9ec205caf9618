/** What goes over the lab's links: counters, captures, and the packets of a forger. */
import type { LabNode } from "./lab-node.ts";
import type { Namespace } from "./namespace.ts";
import { waitFor } from "./wait.ts";

export interface TunnelPackets {
  readonly received: number;
  readonly sent: number;
}

/** Packets that the node's tunl0 unwrapped and wrapped so far. */
export async function tunnelPackets({ namespace }: LabNode): Promise<TunnelPackets> {
  const [link] = await namespace.ipJson("-s", "link", "show", "tunl0");
  return { received: link.stats64.rx.packets, sent: link.stats64.tx.packets };
}

/** Echo requests that arrived in the namespace so far. */
export async function echoRequests(namespace: Namespace): Promise<number> {
  const { stdout } = await namespace.run({ file: "nstat", args: ["-asz", "-j", "IcmpInEchos"] });
  return JSON.parse(stdout).kernel.IcmpInEchos;
}

/** Does something and gives tcpdump's text of the first packet on the device that the filter lets through meanwhile. */
export async function captureOne(
  namespace: Namespace,
  { device, filter, timeoutMs }: { readonly device: string; readonly filter: string; readonly timeoutMs: number },
  action: () => Promise<void>,
): Promise<string> {
  let output = "";
  const tcpdump = namespace.start({
    file: "tcpdump",
    args: ["-nn", "-v", "-t", "-l", "-c", "1", "-i", device, filter],
    timeoutMs,
    onOutput: (text) => {
      output += text;
    },
  });
  try {
    await waitFor(() => output.includes("listening on"), { what: `tcpdump listening on "${device}"`, timeoutMs });
    await action();
    return (await tcpdump.ended).stdout;
  } finally {
    tcpdump.kill("SIGTERM");
  }
}

export interface ForgedPacket {
  /** The machine that sends it, with the address it really has. */
  readonly forger: Namespace;
  readonly forgerAddress: string;
  readonly node: LabNode;
  /** Addresses of two pods: whose packet it pretends to be, and for whom it is. */
  readonly innerSource: string;
  readonly innerDestination: string;
}

/** Sends one encapsulated echo request as a node would, from a machine that is none, by a tunnel device of its own. */
export async function sendForged(packet: ForgedPacket): Promise<void> {
  const { forger, forgerAddress, node, innerSource, innerDestination } = packet;
  await forger.ipBatch(
    `link add forged type ipip local ${forgerAddress} remote ${node.host}`,
    `address add ${innerSource}/32 dev forged`,
    "link set forged up",
    `route add ${innerDestination}/32 dev forged`,
  );
  try {
    // The answer goes to the pod whose address was forged: ping sees none, whatever became of the request.
    await forger.run({ file: "ping", args: ["-n", "-c", "1", "-W", "1", innerDestination], okExitCodes: [1] });
  } finally {
    await forger.ip("link", "delete", "forged");
  }
}
