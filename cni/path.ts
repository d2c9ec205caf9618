/** Paths in the configuration. */
import { z } from "zod";

/** The kernel's PATH_MAX is 4096 bytes with the closing zero. */
const pathBytes = 4095;

export const absolutePath = z
  .string()
  .startsWith("/")
  .refine((path) => !path.includes("\0") && Buffer.byteLength(path) <= pathBytes, {
    error: `an absolute path of at most ${pathBytes} bytes without NUL`,
  });
