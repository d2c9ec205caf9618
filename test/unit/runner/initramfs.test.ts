import { expect, test } from "@jest/globals";
import { loadOrder } from "../../vm/machine/initramfs.ts";

const dependencies = [
  "kernel/fs/overlayfs/overlay.ko:",
  "kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/fscache/fscache.ko.xz kernel/fs/netfs/netfs.ko.xz",
  "kernel/net/9p/9pnet_virtio.ko.xz: kernel/net/9p/9pnet.ko.xz",
].join("\n");

test("loadOrder() puts what a module needs before it, and nothing twice", () => {
  expect(loadOrder(dependencies, ["9pnet_virtio", "9p", "overlay"])).toEqual([
    "kernel/net/9p/9pnet.ko.xz",
    "kernel/net/9p/9pnet_virtio.ko.xz",
    "kernel/fs/netfs/netfs.ko.xz",
    "kernel/fs/fscache/fscache.ko.xz",
    "kernel/fs/9p/9p.ko.xz",
    "kernel/fs/overlayfs/overlay.ko",
  ]);
});

test("loadOrder() passes over a module that is built into the kernel", () => {
  expect(loadOrder(dependencies, ["virtio_pci", "overlay"])).toEqual(["kernel/fs/overlayfs/overlay.ko"]);
});
