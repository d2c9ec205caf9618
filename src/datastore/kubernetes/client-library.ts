/** What is used of Kubernetes' client library: by name, so that a bundle has a tenth of the 15 MB that it is. */
export { KubeConfig, loadYaml } from "@kubernetes/client-node";
