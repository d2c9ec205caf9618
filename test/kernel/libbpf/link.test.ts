import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterEach, beforeAll, beforeEach, expect, test } from "@jest/globals";
import { BpfLink, BpfObject, supportsTcx } from "libbpf-ts";
import { Bpffs } from "./bpffs.ts";
import { toNumber, u32, u64 } from "./bytes.ts";
import { compile } from "./compile.ts";
import { refusal } from "./refusal.ts";
import { VethPair } from "./veth.ts";

let image: Uint8Array;
let bpffs: Bpffs;
let veth: VethPair;
let object: BpfObject;

beforeAll(async () => {
  image = await compile("programs");
});

beforeEach(async () => {
  bpffs = await Bpffs.mount();
  veth = await VethPair.create();
  object = BpfObject.open(image, { name: "programs" });
  object.load();
  for (const program of object.programs) {
    program.pin(bpffs.path(program.name));
  }
});

afterEach(async () => {
  object.close();
  await veth.remove();
  await bpffs.unmount();
});

/** Attaches in a process of its own, which has ended when this answers. */
async function attach(
  verb: "xdp" | "tcx",
  { program, ...options }: { program: string; pin?: string; mode?: string; ifindex?: number },
) {
  const request = { ifindex: veth.ifindex, ...options, program: bpffs.path(program) };
  const child = join(import.meta.dirname, "child.ts");
  const { stdout } = await veth.inFar(process.execPath, child, verb, JSON.stringify(request));
  return JSON.parse(stdout);
}

/** How many echo requests the first and the second programs have seen. */
function echoes(): (number | undefined)[] {
  return [0, 1].map((slot) => toNumber(object.map("echoes").get(u32(slot))));
}

test.each(["native", "generic"])("an XDP program attached in %s mode sees every packet", async (mode) => {
  const pin = bpffs.path("link");
  const info = await attach("xdp", { program: "first_xdp", mode, pin });
  expect(info).toEqual({
    id: expect.any(Number),
    programId: object.program("first_xdp").id,
    type: "xdp",
    attachType: "xdp",
    ifindex: veth.ifindex,
  });
  await veth.ping({ count: 5 });
  expect(echoes()).toEqual([5, 0]);

  const { stdout } = await veth.inFar("ip", "-json", "link", "show", "dev", "far");
  expect(JSON.parse(stdout)[0].xdp.mode).toBe({ native: 1, generic: 2 }[mode]);
});

test("a second XDP program on a device is refused", async () => {
  await attach("xdp", { program: "first_xdp", mode: "native", pin: bpffs.path("link") });
  const error = await attach("xdp", { program: "second_xdp", mode: "native" });
  expect(error.code).toBe("EBUSY");
  expect(error.message).toContain(`Cannot attach program "second_xdp" to device ${veth.ifindex} as native XDP`);
  expect(await attach("xdp", { program: "second_xdp", mode: "generic" })).toMatchObject({ code: "EEXIST" });
});

test("native XDP is refused where the driver has none", async () => {
  await veth.inFar("ip", "link", "add", "bridge", "type", "bridge");
  const { stdout } = await veth.inFar("ip", "-json", "link", "show", "dev", "bridge");
  const { ifindex } = JSON.parse(stdout)[0];
  expect(await attach("xdp", { program: "first_xdp", mode: "native", ifindex })).toMatchObject({ code: "EOPNOTSUPP" });
});

test("a device that does not exist and a program of the wrong type are refused", async () => {
  expect(await attach("tcx", { program: "first_tc", ifindex: 9999 })).toMatchObject({ code: "ENODEV" });
  expect(await attach("tcx", { program: "first_xdp" })).toMatchObject({ code: "EINVAL" });
});

test("a pinned tcx link survives the process that made it and can be opened again", async () => {
  const pin = bpffs.path("link");
  const made = await attach("tcx", { program: "first_tc", pin });
  await veth.ping({ count: 5 });
  expect(echoes()).toEqual([5, 0]);

  using link = BpfLink.openPinned(pin);
  expect(link.info()).toEqual(made);
  expect(link.info()).toEqual({
    id: expect.any(Number),
    programId: object.program("first_tc").id,
    type: "tcx",
    attachType: "tcx_ingress",
    ifindex: veth.ifindex,
  });
  expect(await attach("tcx", { program: "first_tc" })).toMatchObject({ code: "EEXIST" });
});

test("a link that is not pinned ends with its process", async () => {
  await attach("tcx", { program: "first_tc" });
  await veth.ping({ count: 2 });
  expect(echoes()).toEqual([0, 0]);
});

test("unpin() ends a link when nobody has it open", async () => {
  const pin = bpffs.path("link");
  await attach("tcx", { program: "first_tc", pin });
  const link = BpfLink.openPinned(pin);
  link.unpin();
  await veth.ping({ count: 2 });
  expect(echoes()).toEqual([2, 0]);
  link.close();
  await veth.ping({ count: 2 });
  expect(echoes()).toEqual([2, 0]);
  expect(refusal(() => BpfLink.openPinned(pin)).code).toBe("ENOENT");
});

test.each([
  ["tcx", "first_tc", "second_tc"],
  ["xdp", "first_xdp", "second_xdp"],
] as const)("update() of a %s link loses no packet while traffic passes", async (verb, first, second) => {
  const pin = bpffs.path("link");
  await attach(verb, { program: first, mode: "native", pin });
  using link = BpfLink.openPinned(pin);

  let isOver = false;
  const traffic = veth.ping({ count: 500 }).finally(() => {
    isOver = true;
  });
  let updates = 0;
  while (!isOver) {
    updates += 1;
    link.update(object.program(updates % 2 === 1 ? second : first));
    await setTimeout(5);
  }
  await traffic;

  const [byFirst, bySecond] = echoes().map(Number) as [number, number];
  expect(byFirst + bySecond).toBe(500);
  expect(byFirst).toBeGreaterThan(0);
  expect(bySecond).toBeGreaterThan(0);
  expect(updates).toBeGreaterThan(10);
});

test.each([
  ["tcx", "first_tc", "second_tc"],
  ["xdp", "first_xdp", "second_xdp"],
] as const)(
  "update() of a %s link that expects another program is refused and changes nothing",
  async (verb, first, second) => {
    const pin = bpffs.path("link");
    await attach(verb, { program: first, mode: "generic", pin });
    using link = BpfLink.openPinned(pin);

    const error = refusal(() => link.update(object.program(second), { expected: object.program(second) }));
    expect(error.code).toBe("EPERM");
    expect(error.message).toContain(`Cannot put program "${second}" on link "${pin}"`);
    expect(link.info().programId).toBe(object.program(first).id);

    link.update(object.program(second), { expected: object.program(first) });
    expect(link.info().programId).toBe(object.program(second).id);
  },
);

test("detach() takes the program off the device though the link is pinned", async () => {
  const pin = bpffs.path("link");
  await attach("tcx", { program: "first_tc", pin });
  using link = BpfLink.openPinned(pin);
  link.detach();
  expect(link.info().ifindex).toBe(0);
  await veth.ping({ count: 2 });
  expect(echoes()).toEqual([0, 0]);
  expect(refusal(() => link.update(object.program("second_tc"))).code).toBe("ENOLINK");
});

test("a link whose device is gone says so", async () => {
  const pin = bpffs.path("link");
  await attach("xdp", { program: "first_xdp", mode: "native", pin });
  using link = BpfLink.openPinned(pin);
  await veth.inFar("ip", "link", "delete", "far");
  expect(link.info().ifindex).toBe(0);
  expect(refusal(() => link.update(object.program("second_xdp"))).code).toBe("ENOLINK");
});

test("a closed link is refused, not used", async () => {
  const pin = bpffs.path("link");
  await attach("tcx", { program: "first_tc", pin });
  const link = BpfLink.openPinned(pin);
  link.close();
  link.close();
  expect(refusal(() => link.info()).message).toContain("it is closed");
  expect(refusal(() => link.detach()).code).toBe("EBADF");
});

test("what is pinned under a path is opened only as what it is", () => {
  object.map("table").set(u32(1), u64(1));
  expect(refusal(() => BpfLink.openPinned(bpffs.path("first_tc"))).message).toContain(
    '"anon_inode:bpf-prog" is pinned there',
  );
});

test("supportsTcx() tells what the kernel does when it is asked for a tcx link", async () => {
  const answer = await attach("tcx", { program: "first_tc", pin: bpffs.path("link") });
  expect(answer.code ?? answer.type).toBe(supportsTcx() ? "tcx" : "EINVAL");
});
