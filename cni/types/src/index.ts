export { type CniArguments, parseArguments } from "./arguments.ts";
export {
  type CniAttachment,
  type NetworkConfiguration,
  networkConfiguration,
  parseNetworkConfiguration,
  validAttachments,
} from "./configuration.ts";
export { type NetworkConfigurationList, parseNetworkConfigurationList } from "./configuration-list.ts";
export { macAddress, type RuntimeConfigIps, runtimeConfigIps } from "./conventions.ts";
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
export { CniCode, CniError, type CniErrorOptions, type CniErrorResult } from "./error.ts";
export { describeIssue } from "./issue.ts";
export type { CniFamilyIp, CniResult02 } from "./result/v0_2.ts";
export type { CniIp04, CniResult04 } from "./result/v0_4.ts";
export type { CniInterface10, CniIp, CniResult10, CniRoute10 } from "./result/v1_0.ts";
export type { CniInterface, CniResult, CniResult11, CniRoute } from "./result/v1_1.ts";
export { type AnyCniResult, type CniResultOf, convertResult, parseResult } from "./result.ts";
export {
  type CniVersion,
  isSupportedVersion,
  newestVersion,
  oldestVersion,
  requireVersionFor,
  supportedVersions,
  type VersionResult,
} from "./version.ts";
