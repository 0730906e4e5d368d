/** Connects a command's input to nothing, a pipe, or the raw terminal. */

import type { CommandClient } from "../../../transport/index.ts";
import type { CliIo } from "../../output/cli-io.ts";

export interface CommandInputSource {
  /** The terminal stays in cooked mode until the program runs: messages must look right, and Ctrl-C must work. */
  waitsForProgram?: boolean;
  /** Returns what stops it. `leave` hangs up. */
  start(client: CommandClient, leave: () => void): () => void;
}

/** Undefined: the command finds the end of its input at once. */
export function pipedInput(source: AsyncIterable<Uint8Array | string> | undefined): CommandInputSource {
  return {
    start: (client) => {
      // A source that breaks off has ended, too.
      if (source) void client.sendInput(source).catch(() => client.endInput());
      else client.endInput();
      return () => undefined;
    },
  };
}

/** Every key goes to the remote side, including Ctrl-C; Enter ~ . disconnects, as in ssh. */
export function terminalInput(io: CliIo): CommandInputSource {
  return {
    waitsForProgram: true,
    start: (client, leave) => {
      const { terminal } = io;
      if (!terminal) return () => undefined;
      const escape = new EscapeWatcher();
      // One after the other: a long paste may have to wait for the other side.
      let typed: Promise<unknown> = Promise.resolve();
      const releaseKeys = terminal.readBytes((data) => {
        if (escape.isLeaving(data)) leave();
        else typed = typed.then(() => client.write(data));
      });
      const releaseResize = terminal.onResize(() => client.resize(...sizeOf(io)));
      // The size may have changed since the request.
      client.resize(...sizeOf(io));
      return () => {
        releaseKeys();
        releaseResize();
      };
    },
  };
}

/** Columns and rows; a terminal whose size was never set reports 0. */
export function sizeOf({ stdout }: CliIo): [columns: number, rows: number] {
  return [stdout.columns || 80, stdout.rows || 24];
}

/** Recognises Enter ~ . also when each key arrives in a chunk of its own. */
class EscapeWatcher {
  #seen: "line" | "tilde" | "other" = "line";

  isLeaving(data: Uint8Array): boolean {
    for (const byte of data) {
      if (this.#seen === "tilde" && byte === 0x2e) return true;
      if (byte === 0x0d || byte === 0x0a) this.#seen = "line";
      else this.#seen = this.#seen === "line" && byte === 0x7e ? "tilde" : "other";
    }
    return false;
  }
}
