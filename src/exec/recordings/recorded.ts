import type { CommandOutput, RunningCommand } from "../processes/running-command.ts";
import type { Recording } from "./recordings.ts";

/** Wraps a command so that its terminal output is recorded on its way to the reader. */
export function recorded(running: RunningCommand, recording: Recording): RunningCommand {
  async function* output(): AsyncGenerator<CommandOutput> {
    for await (const piece of running.output()) {
      recording.output(piece.data);
      yield piece;
    }
  }
  return {
    pid: running.pid,
    ended: running.ended,
    output,
    drain: () => running.drain(),
    write: (data) => running.write(data),
    endInput: () => running.endInput(),
    resize: (columns, rows) => {
      recording.resize(columns, rows);
      running.resize(columns, rows);
    },
    signal: (name) => running.signal(name),
    stop: (reason) => running.stop(reason),
    [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
  };
}
