import * as z from "zod";
import { CoralError } from "../base/errors.ts";
import { completenessOf, defineTool, type Tool } from "../tools/index.ts";

/** Counts calls. */
export interface SampleBackend {
  calls: string[];
}

const output = z.object({ echoed: z.string() });

export const sampleTools: readonly Tool<SampleBackend>[] = [
  defineTool({
    name: "coral_echo_text",
    title: "Echo",
    description: "Echoes the text.",
    input: z.object({ text: z.string().min(1), times: z.int().min(1).max(100_000).default(1) }),
    output,
    permission: "read",
    changes: false,
    handle: async (backend: SampleBackend, { text, times }) => {
      backend.calls.push(text);
      if (text === "fail") throw new CoralError({ code: "not-found", message: 'Cannot find "fail": there is none' });
      return {
        output: { echoed: text.repeat(times) },
        completeness: completenessOf(text === "partly" ? [{ kind: "agent-silent", message: "web-1 is silent" }] : []),
      };
    },
  }),
  defineTool({
    name: "coral_wait_forever",
    title: "Wait",
    description: "Waits until it is cancelled.",
    input: z.object({}),
    output,
    permission: "read",
    changes: false,
    handle: (backend: SampleBackend, _input, { signal }) =>
      new Promise((_, reject) => {
        backend.calls.push("waiting");
        signal.addEventListener("abort", () => {
          backend.calls.push("cancelled");
          reject(signal.reason as Error);
        });
      }),
  }),
  defineTool({
    name: "coral_change_world",
    title: "Change",
    description: "Changes something.",
    input: z.object({}),
    output,
    permission: "exec",
    changes: true,
    handle: async (backend: SampleBackend) => {
      backend.calls.push("changed");
      return { output: { echoed: "" }, completeness: completenessOf([]) };
    },
  }),
];
