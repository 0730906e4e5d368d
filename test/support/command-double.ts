/** A fake agent-side Execute handler. It simulates a few programs, so that command routing is testable without processes. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { BoundedChannel } from "../../src/base/bounded-channel.ts";
import type { CommandOrder, ExecuteRequest, ExecuteResponseSchema } from "../../src/proto/coral/agent/v1/commands_pb.ts";

type Response = MessageInitShape<typeof ExecuteResponseSchema>;

export interface PlayedCommands {
  /** Every order received. */
  orders: CommandOrder[];
  /** Every message after the order, in sequence: `resize 80x24`, `signal INT`. */
  heard: string[];
  /** Commands whose call ended before they finished. */
  cancelled: number;
  execute: (requests: AsyncIterable<ExecuteRequest>, signal: AbortSignal) => AsyncIterable<Response>;
}

const output = (data: Uint8Array | string, stream = "stdout"): Response => ({
  event: { case: "output", value: { stream, data: typeof data === "string" ? Buffer.from(data) : data } },
});
const ended = (reason: string, more: { exitCode?: number; signal?: string; problem?: string; code?: string } = {}): Response => ({
  event: { case: "ended", value: { reason, ...more } },
});

/**
 * Programs: `echo words`, `cat` (copies its input), `exit n`, `fail` (writes to stderr, exits with 1), `flood bytes`, `wait` (until a signal ends it), `stubborn` (ignores
 * signals), `deny`, `exhausted`, `bytes` (writes all 256), `hold` (needs an approval that never comes).
 */
export function playCommands(name: string): PlayedCommands {
  const played: PlayedCommands = {
    orders: [],
    heard: [],
    cancelled: 0,
    execute: async function* (requests, signal) {
      const iterator = requests[Symbol.asyncIterator]();
      const first = await iterator.next();
      if (first.done || first.value.message.case !== "order") throw new Error("no order");
      const order = first.value.message.value;
      played.orders.push(order);
      let hasEnded = false;
      const input = new BoundedChannel<ExecuteRequest["message"]>(1);
      const onCut = (): void => {
        if (!hasEnded) played.cancelled++;
        hasEnded = true;
        input.end();
      };
      void (async () => {
        for (let next = await iterator.next(); !next.done; next = await iterator.next()) {
          const { message } = next.value;
          if (message.case === "resize") played.heard.push(`resize ${message.value.columns}x${message.value.rows}`);
          if (message.case === "signal") played.heard.push(`signal ${message.value}`);
          await input.put(message);
        }
      })()
        // The caller ended the call.
        .catch(() => undefined)
        .finally(onCut);
      signal.addEventListener("abort", onCut, { once: true });
      for await (const response of play(order.argv.length > 0 ? order.argv : order.text.split(" "), name, input)) {
        hasEnded ||= response.event?.case === "ended";
        yield response;
      }
    },
  };
  return played;
}

async function* play(argv: string[], name: string, input: AsyncIterable<ExecuteRequest["message"]>): AsyncGenerator<Response> {
  const [program = "", ...args] = argv;
  if (program === "deny")
    return yield ended("denied", { problem: `Cannot run "deny" at ${name}: no rule allows it`, code: "not-permitted" });
  if (program === "exhausted")
    return yield ended("failed", {
      problem: "Cannot run a command: 16 commands run on this host already (exec.max_running)",
      code: "exhausted",
    });
  if (program === "hold")
    yield { event: { case: "approvalNeeded", value: { approvalId: "ap-1", rule: "careful", expiresAtMs: 4_102_444_800_000n } } };
  else yield { event: { case: "started", value: { pid: 42, programs: [program], where: "host", rule: "diagnostics", user: "nobody" } } };
  switch (program) {
    case "echo":
      yield output(`${args.join(" ")} from ${name}\n`);
      break;
    case "exit":
      return yield ended("exited", { exitCode: Number(args[0]) });
    case "fail":
      yield output("no good\n", "stderr");
      return yield ended("exited", { exitCode: 1 });
    case "bytes":
      yield output(Uint8Array.from({ length: 256 }, (_, index) => index));
      break;
    case "flood": {
      const chunk = Buffer.alloc(64 * 1024, "x");
      for (let left = Number(args[0]); left > 0; left -= chunk.length) yield output(chunk.subarray(0, Math.min(left, chunk.length)));
      break;
    }
    case "cat":
    case "wait":
    case "stubborn":
    case "hold":
      for await (const message of input) {
        if (message.case === "input" && program === "cat") yield output(message.value);
        if (message.case === "inputEnds" && program === "cat") break;
        if (message.case === "signal" && program !== "stubborn") return yield ended("signalled", { signal: message.value });
      }
      break;
  }
  yield ended("exited", { exitCode: 0 });
}
