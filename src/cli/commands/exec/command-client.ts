/** The client's end of a command: sends what was asked for and its input, hands out what comes back, up to the end. */

import { CoralError, isErrorCode } from "../../../base/errors.ts";
import type { CommandAsk, CommandEnd, DaemonMessage, FrameStream } from "../../../transport/index.ts";

export type Routed = Extract<DaemonMessage, { kind: "routed" }>;

/** Sees everything in order; a promise that it returns holds the daemon back. */
export interface CommandEvents {
  routed(message: Routed): void;
  message(target: number, message: Exclude<DaemonMessage, { kind: "routed" | "credit" | "ended" | "error" }>): void;
  output(target: number, stream: "stdout" | "stderr", data: Buffer): void | Promise<void>;
}

/** `lost`: the connection broke before the end was told. */
export type CommandOutcome = { kind: "ended"; ends: (CommandEnd | undefined)[] } | { kind: "lost"; ends: (CommandEnd | undefined)[] };

/** One command on open frames. `run` may be called once. */
export class CommandClient {
  readonly #frames: FrameStream;
  #creditBytes = 0;
  #hasEnded = false;
  #wake: (() => void) | undefined;

  constructor(frames: FrameStream) {
    this.#frames = frames;
  }

  /** Up to the end of all targets. Throws what the daemon refuses with. */
  async run(ask: CommandAsk, events: CommandEvents): Promise<CommandOutcome> {
    const ends: (CommandEnd | undefined)[] = [];
    try {
      await this.#frames.send({ kind: "control", value: ask });
      for await (const frame of this.#frames) {
        if (frame.kind !== "control") {
          await events.output(frame.target, frame.kind === "data" ? "stdout" : "stderr", frame.data);
          continue;
        }
        const message = frame.value as DaemonMessage;
        if (message.kind === "credit") this.#grant(message.bytes);
        else if (message.kind === "routed") {
          ends.length = message.targets.length;
          events.routed(message);
        } else if (message.kind === "ended") return { kind: "ended", ends };
        else if (message.kind === "error") throw revive(message.error);
        else {
          if (message.kind === "target-ended") ends[frame.target] = message;
          events.message(frame.target, message);
        }
      }
      return { kind: "lost", ends };
    } finally {
      this.#finish();
      await this.#frames.close();
    }
  }

  /** All of `source` as the command's input, as fast as it is read there, then its end. */
  async sendInput(source: AsyncIterable<Uint8Array | string>): Promise<void> {
    for await (const chunk of source) if (!(await this.write(typeof chunk === "string" ? Buffer.from(chunk) : chunk))) return;
    await this.endInput();
  }

  /** False when the command has ended. */
  async write(data: Uint8Array): Promise<boolean> {
    let rest = data;
    while (rest.length > 0) {
      while (this.#creditBytes === 0 && !this.#hasEnded) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
      if (this.#hasEnded) return false;
      const part = rest.subarray(0, this.#creditBytes);
      this.#creditBytes -= part.length;
      rest = rest.subarray(part.length);
      if (!(await this.#frames.send({ kind: "data", data: part }))) return false;
    }
    return true;
  }

  async endInput(): Promise<void> {
    await this.#frames.send({ kind: "control", value: { kind: "input-ends" } });
  }

  /** By name: INT, TERM. */
  signal(signal: string): void {
    void this.#frames.send({ kind: "control", value: { kind: "signal", signal } });
  }

  resize(columns: number, rows: number): void {
    void this.#frames.send({ kind: "control", value: { kind: "resize", columns, rows } });
  }

  /** Ends the command, too, unless it is detached. */
  hangUp(): void {
    this.#finish();
    this.#frames.destroy();
  }

  #grant(bytes: number): void {
    this.#creditBytes += bytes;
    this.#wake?.();
  }

  #finish(): void {
    this.#hasEnded = true;
    this.#wake?.();
  }
}

function revive({ code, message, details }: Extract<DaemonMessage, { kind: "error" }>["error"]): CoralError {
  return new CoralError({ code: isErrorCode(code) ? code : "internal", message, details });
}
