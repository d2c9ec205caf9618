/**
 * A process of its own for what depends on the process: the network namespace, its end, its output, its collected garbage.
 * `node child.ts VERB JSON` prints what the verb answers, or the code of the error, as JSON.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import {
  attachClsact,
  BpfError,
  BpfLink,
  BpfMap,
  BpfObject,
  BpfProgram,
  detachClsact,
  type FilterPlace,
  queryClsact,
  type XdpMode,
} from "libbpf-ts";

interface Attachment {
  /** Where the program is pinned. */
  readonly program: string;
  readonly ifindex: number;
  /** Where to pin the link; without it the link ends with this process. */
  readonly pin?: string;
}

type Place = FilterPlace & { readonly ifindex: number };

const verbs = {
  xdp: ({ program, ifindex, pin, mode }: Attachment & { mode: XdpMode }) =>
    keep(BpfLink.attachXdp(BpfProgram.openPinned(program), ifindex, mode), pin),
  tcx: ({ program, ifindex, pin }: Attachment) => keep(BpfLink.attachTcx(BpfProgram.openPinned(program), ifindex), pin),
  attachClsact: ({ program, ifindex, ...place }: Attachment & Place) =>
    attachClsact(BpfProgram.openPinned(program), ifindex, place),
  queryClsact: ({ ifindex, ...place }: Place) => queryClsact(ifindex, place),
  detachClsact: ({ ifindex, ...place }: Place) => detachClsact(ifindex, place),
  load: ({ image }: { image: string }) => BpfObject.open(readFileSync(image), { name: "object" }).load(),
  /** Opens a map many times without closing it, and answers whether the descriptors were closed within 10 s. */
  forget: async ({ map }: { map: string }) => {
    for (let count = 0; count < 100; count++) {
      BpfMap.openPinned(map);
    }
    const deadline = Date.now() + 10_000;
    while (openMaps() > 0 && Date.now() < deadline) {
      globalThis.gc?.();
      await new Promise(setImmediate);
    }
    return openMaps() === 0;
  },
};

function keep(link: BpfLink, pin: string | undefined) {
  if (pin !== undefined) {
    link.pin(pin);
  }
  return link.info();
}

function openMaps(): number {
  return readdirSync("/proc/self/fd").filter((number) => {
    try {
      return readlinkSync(`/proc/self/fd/${number}`) === "anon_inode:bpf-map";
    } catch {
      return false; // the one that listed the directory
    }
  }).length;
}

const [verb, text] = process.argv.slice(2) as [keyof typeof verbs, string];
try {
  console.log(JSON.stringify((await verbs[verb](JSON.parse(text))) ?? null));
} catch (error) {
  if (!(error instanceof BpfError)) {
    throw error;
  }
  console.log(JSON.stringify({ code: error.code, message: error.message }));
}
