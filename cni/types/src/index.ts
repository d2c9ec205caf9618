export { type CniArguments, parseArguments } from "./arguments.ts";
export { type NetworkConfiguration, networkConfiguration, parseNetworkConfiguration } from "./configuration.ts";
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
export { describeIssue } from "./issue.ts";
export {
  type CniDns,
  type CniInterface,
  type CniIp,
  type CniResult,
  type CniRoute,
  convertResult,
  parseResult,
} from "./result.ts";
export {
  type CniVersion,
  isSupportedVersion,
  newestVersion,
  supportedVersions,
  type VersionResult,
} from "./version.ts";
