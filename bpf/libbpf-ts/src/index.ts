export type { Entry } from "./batch.ts";
export { attachClsact, detachClsact, type Filter, type FilterPlace, queryClsact } from "./clsact.ts";
export { BpfError } from "./error.ts";
export { BpfLink, type LinkInfo, supportsTcx, type XdpMode } from "./link.ts";
export { BpfMap } from "./map.ts";
export { BpfObject } from "./object.ts";
export { BpfProgram, type TestRun, type TestRunResult } from "./program.ts";
