import { CoralError, isErrorCode } from "../../../base/errors.ts";
import { escapeJsonText, escapeText } from "../../../base/escape-text.ts";
import { formatDurationMs } from "../../../base/units.ts";
import type { CaptureEnd, CaptureEvent } from "../../../tools/index.ts";
import { plural } from "../../output/values.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { toolInput } from "../../run/show-tool.ts";
import { captureDetails, captureLine } from "./capture-text.ts";

/** `coral capture <service>`: prints requests as they arrive, until the limit, the duration or Ctrl-C. */
export async function run(invocation: Invocation): Promise<void> {
  const { args } = invocation;
  const colony = await connectColony(invocation);
  const input = toolInput(invocation, "coral_capture_requests");
  const stop = new AbortController();
  const onStop = (): void => stop.abort();
  // The first signal ends the capture and prints a summary; the second one kills the program.
  process.once("SIGINT", onStop).once("SIGTERM", onStop);
  const seen: Seen = { requests: 0, ends: [], service: args[0] ?? "" };
  try {
    for await (const event of colony.stream<CaptureEvent>("/v1/captures", input, stop.signal)) take(invocation, event, seen);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    process.removeListener("SIGINT", onStop).removeListener("SIGTERM", onStop);
  }
  sumUp(invocation, seen, stop.signal.aborted, input.duration);
}

/** What has arrived so far, for the summary at the end. */
interface Seen {
  requests: number;
  ends: CaptureEnd[];
  service: string;
}

/** Prints one event of the stream: the agents first, then requests, then the end of each agent. */
function take(invocation: Invocation, event: CaptureEvent, seen: Seen): void {
  const { print, format, options } = invocation;
  switch (event.kind) {
    case "started":
      seen.service = event.service;
      return;
    case "agent-started": {
      const where = `${plural(event.processes, "process", "processes")} of ${escapeText(seen.service)} on ${escapeText(event.hostname)}`;
      print.note(
        print.noteStyle(
          "dim",
          `watching ${where}, at most ${plural(event.limit, "request")} within ${formatDurationMs(event.durationMs)}; Ctrl-C stops`,
        ),
      );
      return;
    }
    case "request": {
      seen.requests++;
      // One object per line, so that a reader can process requests as they arrive.
      if (format === "json") return print.answer(`${escapeJsonText(JSON.stringify(event.request))}\n`);
      const hasBodies = options.flag("body");
      const more = format === "wide" || hasBodies ? captureDetails(event.request, print, hasBodies) : [];
      return print.answer(`${[captureLine(event.request, print), ...more].join("\n")}\n`);
    }
    case "agent-ended":
      seen.ends.push(event.end);
      if (event.end.problem !== null) print.warning(escapeText(`${event.end.hostname}: ${event.end.problem}`));
      if (event.end.dropped > 0)
        print.warning(
          escapeText(`${event.end.dropped} requests of ${event.end.hostname} were dropped: they arrived faster than they could be printed`),
        );
      return;
    case "ended":
      return;
  }
}

/** Throws when nothing was captured, so that scripts can tell by the exit code, unless the user stopped the capture. */
function sumUp({ print }: Invocation, { requests, ends, service }: Seen, isStopped: boolean, duration: string): void {
  if (requests > 0 || isStopped) {
    print.note(print.noteStyle("dim", `${plural(requests, "request")} captured`));
    return;
  }
  const failed = ends.filter((end) => end.reason === "failed" || end.reason === "lost");
  const [first] = failed;
  // Fail only if every agent failed: if one captured, the answer is that there was no request.
  if (first && failed.length === ends.length)
    throw new CoralError({
      code: isErrorCode(first.code) ? first.code : "unavailable",
      message: first.problem ?? "the agent disconnected",
    });
  throw new CoralError({
    code: "not-found",
    message: `Cannot show a request of "${service}": no matching request within ${duration}; widen the filters, raise --duration, or see "coral query red ${service}" for its traffic`,
  });
}
