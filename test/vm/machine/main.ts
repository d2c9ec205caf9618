/** Runs a command on a stock kernel, for a person: node test/vm/machine/main.ts [--kernel 6.12] -- command… */
import { Command, Option } from "commander";
import { exitOnSignals } from "../../lib/signals.ts";
import { runInMachine } from "./boot.ts";
import { fetchKernel, KERNEL_NAMES, type KernelName } from "./kernels.ts";

const program = new Command("machine")
  .description("Runs a command in a small emulated machine that sees this machine's files; changes are not kept")
  .addOption(new Option("--kernel <version>", "the stock Debian kernel to boot").choices(KERNEL_NAMES).default("6.12"))
  .option("--timeout <seconds>", "for everything, from start to power off", Number, 600)
  .argument("<command...>", "the command and its arguments, after --")
  .action(async (command: string[], options: { kernel: KernelName; timeout: number }) => {
    const kernel = await fetchKernel(options.kernel, (line) => console.error(line));
    const { exitCode } = await runInMachine({
      kernel,
      command,
      environment: { PATH: process.env.PATH ?? "" },
      workingDirectory: process.cwd(),
      timeoutMs: options.timeout * 1000,
      onOutput: (text) => process.stdout.write(text),
    });
    process.exitCode = exitCode;
  });

exitOnSignals();
try {
  await program.parseAsync();
} catch (error) {
  console.error(String(error));
  process.exitCode = 1;
}
