/** Feeds a remote command's stdin from nothing, a pipe, or the raw terminal. */

import type { CommandClient } from "../../../transport/index.ts";
import type { CliIo } from "../../output/cli-io.ts";

/** Where a command's stdin comes from. */
export interface CommandInputSource {
  /** The terminal stays in cooked mode until the program runs, so that messages wrap correctly and Ctrl-C works. */
  waitsForProgram?: boolean;
  /** Starts forwarding; returns a function that stops it. `leave` disconnects. */
  start(client: CommandClient, leave: () => void): () => void;
}

/** Undefined: the command gets end of file at once. */
export function pipedInput(source: AsyncIterable<Uint8Array | string> | undefined): CommandInputSource {
  return {
    start: (client) => {
      // A read error counts as end of input.
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
      // Send sequentially: a long paste may exceed the receiver's flow-control window.
      let typed: Promise<unknown> = Promise.resolve();
      const releaseKeys = terminal.readBytes((data) => {
        if (escape.isLeaving(data)) leave();
        else typed = typed.then(() => client.write(data));
      });
      const releaseResize = terminal.onResize(() => client.resize(...sizeOf(io)));
      // The window may have been resized since the request was sent.
      client.resize(...sizeOf(io));
      return () => {
        releaseKeys();
        releaseResize();
      };
    },
  };
}

/** Columns and rows; a terminal whose size was never set, such as a serial console, reports 0. */
export function sizeOf({ stdout }: CliIo): [columns: number, rows: number] {
  return [stdout.columns || 80, stdout.rows || 24];
}

/** Detects Enter ~ . even when each key arrives in its own chunk. */
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
