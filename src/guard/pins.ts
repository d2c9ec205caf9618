/** What the guard keeps in the kernel while no process runs: maps and programs, pinned under one directory of a bpffs. */
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { BpfMap, BpfObject, BpfProgram } from "libbpf-ts";

/** Maps of bpf/host_net_guard_maps.h */
const mapNames = ["members_exact", "members_cidr", "locals", "other_tunnels", "guard_config", "verdicts"] as const;

/** Programs of bpf/host_net_guard.bpf.c */
const programNames = ["guard_tc_ethernet", "guard_tc_raw", "guard_xdp"] as const;

export type MapName = (typeof mapNames)[number];
export type ProgramName = (typeof programNames)[number];

export interface Pinned {
  readonly maps: Readonly<Record<MapName, BpfMap>>;
  readonly programs: Readonly<Record<ProgramName, BpfProgram>>;
}

/** Directories under the pin directory. A name in a bpffs has no dot. */
export const pinFolders = { maps: "maps", programs: "programs", unpublished: "unpublished", links: "links" } as const;

/**
 * Takes over what is pinned, and pins what is not. A pinned map is kept with its content, a pinned program when its tag
 * says that it is the same; another one is replaced by rename. Whatever instruction this stops at, the next call goes on.
 *
 * @throws BpfError when a program is refused, or with EINVAL when a pinned map has another shape than the image's: maps
 *   only change their shape together with the version in the directory's name
 */
export function takeOver(directory: string, image: Uint8Array): Pinned {
  const folder = makeFolders(directory);
  using object = BpfObject.open(image, { name: "host_net_guard" });
  const missing = object.maps.filter(({ name }) => !existsSync(join(folder.maps, name)));
  if (missing.length > 0) {
    // The tag of a program does not tell which maps it uses: those of the pinned ones are not the new ones.
    remove(folder.programs);
  }
  for (const map of object.maps.filter((map) => !missing.includes(map))) {
    map.reusePinned(join(folder.maps, map.name));
  }
  object.load();
  for (const map of missing) {
    map.pin(join(folder.maps, map.name));
  }
  for (const program of object.programs) {
    publish(program, folder);
  }
  return {
    maps: named(mapNames, (name) => BpfMap.openPinned(join(folder.maps, name))),
    programs: named(programNames, (name) => BpfProgram.openPinned(join(folder.programs, name))),
  };
}

type Folders = Record<keyof typeof pinFolders, string>;

function makeFolders(directory: string): Folders {
  const folder = named(Object.values(pinFolders), (name) => join(directory, name));
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
