import { afterEach, beforeAll, beforeEach, expect, test } from "@jest/globals";
import { queryClsact } from "libbpf-ts";
import { compile } from "./compile.ts";
import { World } from "./world.ts";

const OURS = { priority: 1, handle: 1 };

let image: Uint8Array;
let world: World;

beforeAll(async () => {
  image = await compile("programs");
});

beforeEach(async () => {
  world = await World.create(image);
});

afterEach(() => world.remove());

function inFar(
  verb: "attachClsact" | "queryClsact" | "detachClsact",
  request: { priority: number; handle: number; program?: string; ifindex?: number },
) {
  return world.ask(verb, request);
}

function attach(program: string, place: { priority: number; handle: number }) {
  return inFar("attachClsact", { ...place, program: world.bpffs.path(program) });
}

test("attachClsact() makes the qdisc and a filter that sees every packet after its process ended", async () => {
  expect(await attach("first_tc", OURS)).toBeNull();
  await world.veth.ping({ count: 5 });
  expect(world.echoes()).toEqual([5, 0]);
  const { id, tag } = world.object.program("first_tc");
  expect(await inFar("queryClsact", OURS)).toEqual({ programId: id, tag });
});

test("attachClsact() at the same place replaces the filter", async () => {
  await attach("first_tc", OURS);
  await attach("second_tc", OURS);
  await world.veth.ping({ count: 5 });
  expect(world.echoes()).toEqual([0, 5]);
  expect(await inFar("queryClsact", OURS)).toMatchObject({ programId: world.object.program("second_tc").id });
});

test("replacing a filter loses no packet while traffic passes", async () => {
  await attach("first_tc", OURS);
  let isOver = false;
  const traffic = world.veth.ping({ count: 500 }).finally(() => {
    isOver = true;
  });
  let replacements = 0;
  while (!isOver) {
    replacements += 1;
    await attach(replacements % 2 === 1 ? "second_tc" : "first_tc", OURS);
  }
  await traffic;
  const [byFirst, bySecond] = world.echoes().map(Number) as [number, number];
  expect(byFirst + bySecond).toBe(500);
  expect(bySecond).toBeGreaterThan(0);
});

test("detachClsact() removes our filter and leaves those of others", async () => {
  await world.veth.inFar("tc", "qdisc", "add", "dev", "far", "clsact");
  await world.veth.inFar("tc", ..."filter add dev far ingress pref 5 u32 match u32 0 0 flowid 1:1".split(" "));
  await attach("second_tc", { priority: 3, handle: 9 });
  await attach("first_tc", OURS);

  expect(await inFar("detachClsact", OURS)).toBe(true);
  expect(await inFar("detachClsact", OURS)).toBe(false);
  expect(await inFar("queryClsact", OURS)).toBeNull();

  await world.veth.ping({ count: 5 });
  expect(world.echoes()).toEqual([0, 5]);
  const { stdout } = await world.veth.inFar("tc", "filter", "show", "dev", "far", "ingress");
  expect(stdout).toContain("pref 5 u32");
});

test("a priority at which another kind of filter is, is refused with the kernel's words", async () => {
  await world.veth.inFar("tc", "qdisc", "add", "dev", "far", "clsact");
  await world.veth.inFar("tc", ..."filter add dev far ingress pref 1 u32 match u32 0 0 flowid 1:1".split(" "));
  const error = await attach("first_tc", OURS);
  expect(error.message).toContain(
    `Cannot attach program "first_tc" to the clsact ingress of device ${world.veth.ifindex}`,
  );
  expect(error.message).toContain("Kernel error message");
  expect(await inFar("queryClsact", OURS)).toBeNull();
});

test("where there is no clsact qdisc nothing is found and nothing is detached", async () => {
  expect(await inFar("queryClsact", OURS)).toBeNull();
  expect(await inFar("detachClsact", OURS)).toBe(false);
});

test("a device that does not exist is an error, not an absent filter", async () => {
  expect(await inFar("queryClsact", { ...OURS, ifindex: 9999 })).toMatchObject({ code: "ENODEV" });
  expect(await inFar("detachClsact", { ...OURS, ifindex: 9999 })).toMatchObject({ code: "ENODEV" });
});

test("numbers that name no place are refused before the kernel is asked", () => {
  expect(() => queryClsact(1, { priority: 0, handle: 1 })).toThrow(
    new RangeError("Cannot use priority 0: it must be a whole number from 1 to 65535"),
  );
  expect(() => queryClsact(1, { priority: 65_536, handle: 1 })).toThrow(RangeError);
  expect(() => queryClsact(1, { priority: 1, handle: 0 })).toThrow(RangeError);
  expect(() => queryClsact(Number.NaN, OURS)).toThrow(RangeError);
});
