/** Tells a demo step by step; every step ends in ✓ or ✗. */
import { startTicking } from "./ticker.ts";

export class Story {
  #failures = 0;

  get hasFailed(): boolean {
    return this.#failures > 0;
  }

  /** A step that later ones stand on: its error ends the story. */
  async must<T>(title: string, action: () => Promise<T>): Promise<T> {
    console.log(`\n── ${title}`);
    const stopTicking = startTicking();
    try {
      const result = await action();
      console.log(`✓ ${title}`);
      return result;
    } catch (error) {
      this.#failures += 1;
      console.log(`✗ ${title}: ${(error as Error).message}`);
      throw new StoryEnd();
    } finally {
      stopTicking();
    }
  }

  /** A step whose failure leaves the next ones worth telling. */
  async step(title: string, action: () => Promise<void>): Promise<void> {
    await this.must(title, action).catch((error) => {
      if (!(error instanceof StoryEnd)) {
        throw error;
      }
    });
  }

  /** Lines of a program, under what was asked. */
  show(heading: string, text: string): void {
    console.log(`\n   ${heading}`);
    for (const line of text.trimEnd().split("\n")) {
      console.log(`   ${line}`);
    }
  }

  say(line: string): void {
    console.log(`   ${line}`);
  }
}

/** What failed was told already. */
export class StoryEnd extends Error {
  override readonly name = "StoryEnd";
}

/** @throws an error with this sentence when something is not as it should be */
export function expectThat(isSo: boolean, sentence: string): asserts isSo {
  if (!isSo) {
    throw new Error(sentence);
  }
}
