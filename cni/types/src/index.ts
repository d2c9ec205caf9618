export { type CniArguments, parseArguments } from "./arguments.ts";
export {
  type CniAttachment,
  type NetworkConfiguration,
  networkConfiguration,
  parseNetworkConfiguration,
  validAttachments,
} from "./configuration.ts";
export type { CniDns } from "./dns.ts";
export {
  type AttachmentCall,
  type CniCall,
  type CniCommand,
  cniCommands,
  type Environment,
  type NetworkCall,
  parseEnvironment,
  type VersionCall,
} from "./environment.ts";
export { CniCode, CniError, type CniErrorResult } from "./error.ts";
export type { CniFamilyResult } from "./family-result.ts";
export { describeIssue } from "./issue.ts";
export {
  type AnyCniResult,
  type CniInterface,
  type CniIp,
  type CniResult,
  type CniResult04,
  type CniResult10,
  type CniRoute,
  convertResult,
  parseResult,
} from "./result.ts";
export {
  type CniVersion,
  isSupportedVersion,
  newestVersion,
  oldestVersion,
  requireVersionFor,
  supportedVersions,
  type VersionResult,
} from "./version.ts";
