/** A process that guards a link and then does nothing. Arguments: pin directory, ifindex, ARPHRD type of the link. */
import { HostNetGuard } from "../../../src/guard/guard.ts";
import { HostNetSet } from "../../../src/ipset/host-net-set.ts";
import { image, MEMBER } from "./guarded-node.ts";

const [pinDirectory = "", index, type] = process.argv.slice(2);
const guard = HostNetGuard.open({ pinDirectory, images: [image] });
new HostNetSet(guard.members).replace({ hosts: [MEMBER], cidrs: [] });
guard.attach({ index: Number(index), name: "e0", type: Number(type) }, "tc");
console.log("guarded");
setInterval(() => undefined, 60_000);
