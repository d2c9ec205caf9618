/** Shows on a long step that it goes on. */

const INTERVAL_MS = 5_000;

/** Prints a line every five seconds until the function it returns is called. */
export function startTicking(): () => void {
  const start = Date.now();
  const timer = setInterval(() => {
    console.log(`   … ${Math.round((Date.now() - start) / 1000)} s`);
  }, INTERVAL_MS);
  return () => clearInterval(timer);
}
