/** What the guards keep in the kernel while no process runs: maps and programs, pinned under one directory of a bpffs. */
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { BpfMap, BpfObject, BpfProgram } from "libbpf-ts";

/** Where a node's guards are pinned: in a bpffs of its own, the last part with the version of the maps' shape. */
export function guardPinDirectory(runDir: string): string {
  return join(runDir, "bpf/guard/v1");
}

/** Directories under the pin directory. A name in a bpffs has no dot. */
export const pinFolders = {
  maps: "maps",
  programs: "programs",
  unpublished: "unpublished",
  links: "links",
  podLinks: "pod-links",
} as const;

export interface Pinned<MapName extends string, ProgramName extends string> {
  readonly maps: Readonly<Record<MapName, BpfMap>>;
  readonly programs: Readonly<Record<ProgramName, BpfProgram>>;
}

/**
 * Takes over what is pinned, and pins what is not. A pinned map is kept with its content, a pinned program when its tag
 * says that it is the same; another one is replaced by rename. Whatever instruction this stops at, the next call goes on.
 *
 * @param images objects that share their maps; all that are ever pinned in the directory
 * @throws BpfError when a program is refused, or with EINVAL when a pinned map has another shape than the images': maps
 *   only change their shape together with the version in the directory's name
 */
export function takeOver(directory: string, images: readonly Uint8Array[]): void {
  const folder = makeFolders(directory);
  const objects = images.map((image) => BpfObject.open(image, { name: "cni_ipip_guard" }));
  try {
    const isPinned = ({ name }: BpfMap) => existsSync(join(folder.maps, name));
    if (!objects.every(({ maps }) => maps.every(isPinned))) {
      // The tag of a program does not tell which maps it uses: those of the pinned ones are not the new ones.
      remove(folder.programs);
    }
    for (const object of objects) {
      const missing = object.maps.filter((map) => !isPinned(map));
      for (const map of object.maps.filter(isPinned)) {
        map.reusePinned(join(folder.maps, map.name));
      }
      object.load();
      for (const map of missing) {
        map.pin(join(folder.maps, map.name));
      }
      for (const program of object.programs) {
        publish(program, folder);
      }
    }
  } finally {
    for (const object of objects) {
      object.close();
    }
  }
}

/** Throws a `BpfError` with ENOENT when one of them is not pinned. */
export function openPinned<MapName extends string, ProgramName extends string>(
  directory: string,
  mapNames: readonly MapName[],
  programNames: readonly ProgramName[],
): Pinned<MapName, ProgramName> {
  return {
    maps: named(mapNames, (name) => BpfMap.openPinned(join(directory, pinFolders.maps, name))),
    programs: named(programNames, (name) => BpfProgram.openPinned(join(directory, pinFolders.programs, name))),
  };
}

export function closePinned({ maps, programs }: Pinned<string, string>): void {
  for (const held of [...Object.values(maps), ...Object.values(programs)]) {
    held.close();
  }
}

type Folders = Record<keyof typeof pinFolders, string>;

function makeFolders(directory: string): Folders {
  const names = Object.keys(pinFolders) as (keyof typeof pinFolders)[];
  const folder = named(names, (name) => join(directory, pinFolders[name]));
  remove(folder.unpublished);
  for (const path of Object.values(folder)) {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  }
  return folder;
}

function publish(program: BpfProgram, folder: Folders): void {
  const path = join(folder.programs, program.name);
  if (existsSync(path)) {
    using pinned = BpfProgram.openPinned(path);
    if (pinned.tag === program.tag) {
      return;
    }
  }
  const unpublished = join(folder.unpublished, program.name);
  program.pin(unpublished);
  mkdirSync(folder.programs, { recursive: true, mode: 0o700 });
  renameSync(unpublished, path);
}

function remove(path: string): void {
  rmSync(path, { recursive: true, force: true });
}

function named<Name extends string, Value>(names: readonly Name[], make: (name: Name) => Value): Record<Name, Value> {
  return Object.fromEntries(names.map((name) => [name, make(name)])) as Record<Name, Value>;
}
