/** A container image in a file, made without a registry: busybox and a page for it to serve. OCI image layout 1.0. */
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../../src/exec.ts";
import { page } from "./client-node.ts";

export const imageName = "localhost/busybox:test";

const busybox = "/bin/busybox";
/** A day: as good as forever, to a test. */
const pause = [busybox, "sleep", "86400"];
const architectures = { x64: "amd64", arm64: "arm64" } as const;

/** @returns the path of the image's tar file, in the directory given */
export async function packImage(directory: string): Promise<string> {
  const layer = await packLayer(directory);
  const layout = join(directory, "layout");
  await mkdir(join(layout, "blobs/sha256"), { recursive: true });
  const layerBlob = await blob(layout, "application/vnd.oci.image.layer.v1.tar", layer);
  const configBlob = await blob(layout, "application/vnd.oci.image.config.v1+json", {
    architecture: architectures[process.arch as keyof typeof architectures],
    os: "linux",
    config: { Entrypoint: pause },
    rootfs: { type: "layers", diff_ids: [layerBlob.digest] },
  });
  const manifest = await blob(layout, "application/vnd.oci.image.manifest.v1+json", {
    schemaVersion: 2,
    config: configBlob,
    layers: [layerBlob],
  });
  // containerd takes the name from the one, podman from the other.
  const annotations = { "io.containerd.image.name": imageName, "org.opencontainers.image.ref.name": imageName };
  await writeFile(join(layout, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  const index = { schemaVersion: 2, manifests: [{ ...manifest, annotations }] };
  await writeFile(join(layout, "index.json"), JSON.stringify(index));
  return pack(layout, join(directory, "image.tar"));
}

async function packLayer(directory: string): Promise<string> {
  const root = join(directory, "root");
  await mkdir(join(root, "bin"), { recursive: true });
  await copyFile(busybox, join(root, busybox));
  await symlink("busybox", join(root, "bin/sh"));
  await writeFile(join(root, "index.html"), page);
  return pack(root, join(directory, "layer.tar"));
}

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  /** Bytes. */
  readonly size: number;
}

/** Puts a file, or data as JSON, into the layout under its digest. */
async function blob(layout: string, mediaType: string, content: string | object): Promise<Descriptor> {
  const bytes = typeof content === "string" ? await readFile(content) : Buffer.from(JSON.stringify(content));
  const hash = createHash("sha256").update(bytes).digest("hex");
  await writeFile(join(layout, "blobs/sha256", hash), bytes);
  return { mediaType, digest: `sha256:${hash}`, size: bytes.length };
}

async function pack(directory: string, file: string): Promise<string> {
  await run({
    file: "tar",
    args: ["--create", "--owner=0", "--group=0", "--file", file, "--directory", directory, "."],
  });
  return file;
}
