import { setTimeout } from "node:timers/promises";
import { afterEach, beforeAll, beforeEach, expect, test } from "@jest/globals";
import { BpfLink, supportsTcx } from "libbpf-ts";
import { u32, u64 } from "./bytes.ts";
import { compile } from "./compile.ts";
import { refusal } from "./refusal.ts";
import { World } from "./world.ts";

let image: Uint8Array;
let world: World;

beforeAll(async () => {
  image = await compile("programs");
});

beforeEach(async () => {
  world = await World.create(image);
});

afterEach(() => world.remove());

/** Attaches in a process of its own, which has ended when this answers. */
function attach(
  verb: "xdp" | "tcx",
  { program, ...options }: { program: string; pin?: string; mode?: string; ifindex?: number },
) {
  return world.ask(verb, { ...options, program: world.bpffs.path(program) });
}

test.each(["native", "generic"])("an XDP program attached in %s mode sees every packet", async (mode) => {
  const pin = world.bpffs.path("link");
  const info = await attach("xdp", { program: "first_xdp", mode, pin });
  expect(info).toEqual({
    id: expect.any(Number),
    programId: world.object.program("first_xdp").id,
    type: "xdp",
    attachType: "xdp",
    ifindex: world.veth.ifindex,
  });
  await world.veth.ping({ count: 5 });
  expect(world.echoes()).toEqual([5, 0]);

  const { stdout } = await world.veth.inFar("ip", "-json", "link", "show", "dev", "far");
  expect(JSON.parse(stdout)[0].xdp.mode).toBe({ native: 1, generic: 2 }[mode]);
});

test("a second XDP program on a device is refused", async () => {
  await attach("xdp", { program: "first_xdp", mode: "native", pin: world.bpffs.path("link") });
  const error = await attach("xdp", { program: "second_xdp", mode: "native" });
  expect(error.code).toBe("EBUSY");
  expect(error.message).toContain(`Cannot attach program "second_xdp" to device ${world.veth.ifindex} as native XDP`);
  expect(await attach("xdp", { program: "second_xdp", mode: "generic" })).toMatchObject({ code: "EEXIST" });
});

test("native XDP is refused where the driver has none", async () => {
  await world.veth.inFar("ip", "link", "add", "bridge", "type", "bridge");
  const { stdout } = await world.veth.inFar("ip", "-json", "link", "show", "dev", "bridge");
  const { ifindex } = JSON.parse(stdout)[0];
  expect(await attach("xdp", { program: "first_xdp", mode: "native", ifindex })).toMatchObject({ code: "EOPNOTSUPP" });
});

test("a device that does not exist and a program of the wrong type are refused", async () => {
  expect(await attach("tcx", { program: "first_tc", ifindex: 9999 })).toMatchObject({ code: "ENODEV" });
  expect(await attach("tcx", { program: "first_xdp" })).toMatchObject({ code: "EINVAL" });
});

test("a pinned tcx link survives the process that made it and can be opened again", async () => {
  const pin = world.bpffs.path("link");
  const made = await attach("tcx", { program: "first_tc", pin });
  await world.veth.ping({ count: 5 });
  expect(world.echoes()).toEqual([5, 0]);

  using link = BpfLink.openPinned(pin);
  expect(link.info()).toEqual(made);
  expect(link.info()).toEqual({
    id: expect.any(Number),
    programId: world.object.program("first_tc").id,
    type: "tcx",
    attachType: "tcx_ingress",
    ifindex: world.veth.ifindex,
  });
  expect(await attach("tcx", { program: "first_tc" })).toMatchObject({ code: "EEXIST" });
});

test("a link that is not pinned ends with its process", async () => {
  await attach("tcx", { program: "first_tc" });
  await world.veth.ping({ count: 2 });
  expect(world.echoes()).toEqual([0, 0]);
});

test("unpin() ends a link when nobody has it open", async () => {
  const pin = world.bpffs.path("link");
  await attach("tcx", { program: "first_tc", pin });
  const link = BpfLink.openPinned(pin);
  link.unpin();
  await world.veth.ping({ count: 2 });
  expect(world.echoes()).toEqual([2, 0]);
  link.close();
  await world.veth.ping({ count: 2 });
  expect(world.echoes()).toEqual([2, 0]);
  expect(refusal(() => BpfLink.openPinned(pin)).code).toBe("ENOENT");
});

test.each([
  ["tcx", "first_tc", "second_tc"],
  ["xdp", "first_xdp", "second_xdp"],
] as const)("update() of a %s link loses no packet while traffic passes", async (verb, first, second) => {
  const pin = world.bpffs.path("link");
  await attach(verb, { program: first, mode: "native", pin });
  using link = BpfLink.openPinned(pin);

  let isOver = false;
  const traffic = world.veth.ping({ count: 500 }).finally(() => {
    isOver = true;
  });
  let updates = 0;
  while (!isOver) {
    updates += 1;
    link.update(world.object.program(updates % 2 === 1 ? second : first));
    await setTimeout(5);
  }
  await traffic;

  const [byFirst, bySecond] = world.echoes().map(Number) as [number, number];
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
    const pin = world.bpffs.path("link");
    await attach(verb, { program: first, mode: "generic", pin });
    using link = BpfLink.openPinned(pin);

    const error = refusal(() => link.update(world.object.program(second), { expected: world.object.program(second) }));
    expect(error.code).toBe("EPERM");
    expect(error.message).toContain(`Cannot put program "${second}" on link "${pin}"`);
    expect(link.info().programId).toBe(world.object.program(first).id);

    link.update(world.object.program(second), { expected: world.object.program(first) });
    expect(link.info().programId).toBe(world.object.program(second).id);
  },
);

test("detach() takes the program off the device though the link is pinned", async () => {
  const pin = world.bpffs.path("link");
  await attach("tcx", { program: "first_tc", pin });
  using link = BpfLink.openPinned(pin);
  link.detach();
  expect(link.info().ifindex).toBe(0);
  await world.veth.ping({ count: 2 });
  expect(world.echoes()).toEqual([0, 0]);
  expect(refusal(() => link.update(world.object.program("second_tc"))).code).toBe("ENOLINK");
});

test("a link whose device is gone says so", async () => {
  const pin = world.bpffs.path("link");
  await attach("xdp", { program: "first_xdp", mode: "native", pin });
  using link = BpfLink.openPinned(pin);
  await world.veth.inFar("ip", "link", "delete", "far");
  expect(link.info().ifindex).toBe(0);
  expect(refusal(() => link.update(world.object.program("second_xdp"))).code).toBe("ENOLINK");
});

test("a closed link is refused, not used", async () => {
  const pin = world.bpffs.path("link");
  await attach("tcx", { program: "first_tc", pin });
  const link = BpfLink.openPinned(pin);
  link.close();
  link.close();
  expect(refusal(() => link.info()).message).toContain("it is closed");
  expect(refusal(() => link.detach()).code).toBe("EBADF");
});

test("what is pinned under a path is opened only as what it is", () => {
  world.object.map("table").set(u32(1), u64(1));
  expect(refusal(() => BpfLink.openPinned(world.bpffs.path("first_tc"))).message).toContain(
    '"anon_inode:bpf-prog" is pinned there',
  );
});

test("supportsTcx() tells what the kernel does when it is asked for a tcx link", async () => {
  const answer = await attach("tcx", { program: "first_tc", pin: world.bpffs.path("link") });
  expect(answer.code ?? answer.type).toBe(supportsTcx() ? "tcx" : "EINVAL");
});
