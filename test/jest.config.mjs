const root = new URL("..", import.meta.url).pathname;

const tier = (name) => ({
  displayName: name,
  rootDir: root,
  // Otherwise jest reads every directory of the tree, 20 s in an emulated machine.
  roots: [`<rootDir>/test/${name}`],
  testMatch: [`<rootDir>/test/${name}/**/*.test.ts`],
  testEnvironment: "node",
  extensionsToTreatAsEsm: [".ts"],
  transform: {
    "\\.ts$": ["@swc/jest", { jsc: { parser: { syntax: "typescript" }, target: "es2024" }, module: { type: "es6" } }],
  },
});

export default {
  rootDir: root,
  projects: ["unit", "kernel", "clients", "vm"].map(tier),
};
