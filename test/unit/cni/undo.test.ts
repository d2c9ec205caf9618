import { expect, test } from "@jest/globals";
import { UndoStack } from "../../../cni/undo.ts";

test("UndoStack runs every step, the last first, and only logs what fails", async () => {
  const events: string[] = [];
  const undo = new UndoStack((sentence) => events.push(sentence));
  undo.push("release the lease", async () => void events.push("released"));
  undo.push("remove the link", async () => {
    throw new Error("EPERM");
  });
  undo.push("remove the route", async () => void events.push("removed"));
  await undo.run();
  expect(events).toEqual(["removed", "Cannot remove the link while undoing: EPERM", "released"]);
});
