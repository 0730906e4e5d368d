import { createHash } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { open } from "node:fs/promises";
import { sleep } from "../../../base/clock.ts";
import { CoralError } from "../../../base/errors.ts";
import { escapeText } from "../../../base/escape-text.ts";
import { formatBytes, formatDurationMs } from "../../../base/units.ts";
import type { AuditEntryFact } from "../../../tools/index.ts";
import { type CastHeader, readCast } from "../../replay/asciicast.ts";
import { playCast } from "../../replay/play-cast.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";

interface Recording {
  bytes: AsyncIterable<Uint8Array>;
  /** From the audit record; empty when the record has none. */
  sha256: string;
}

/**
 * `coral audit replay <id|file>`: plays or saves the recording of a terminal. The hash is computed while the recording streams and
 * compared with the audit at the end, because a recording can be larger than memory; so a warning may follow the replay.
 */
export async function run(invocation: Invocation): Promise<void> {
  const { args, options, print, io } = invocation;
  const name = args[0] ?? "";
  const speed = speedOf(options.text("speed") ?? "1");
  const idleLimitMs = options.durationMs("idle-limit") ?? 2_000;
  const stop = new AbortController();
  const { bytes, sha256 } = name.endsWith(".cast") && existsSync(name) ? localFile(name) : await fromAgent(invocation, name, stop.signal);
  const hash = createHash("sha256");
  const parts = hashed(bytes, hash);
  const file = options.text("to");
  try {
    if (file !== undefined) {
      const sizeBytes = await save(parts, file);
      print.note(`Written to ${file}: ${formatBytes(sizeBytes)}`);
    } else {
      const isTerminal = io.stdout.isTTY === true;
      const play = { speed: isTerminal ? speed : Number.POSITIVE_INFINITY, idleLimitMs, isRaw: options.flag("raw") };
      const end = await playCast(readCast(parts), io, { ...play, onHeader: (header) => printHeader(invocation, header) });
      if (!end.isComplete) return;
      print.note(print.noteStyle("dim", `End of recording, after ${formatDurationMs(end.lengthMs)}`));
    }
    if (sha256 !== "" && hash.digest("hex") !== sha256) {
      invocation.setExitCode(1);
      print.warning("the recording was changed: its hash differs from the one in the audit");
    }
  } finally {
    stop.abort();
  }
}

/** How long to wait for the agent's audit entry; pulls come every five seconds by default. */
const maxWaitMs = 10_000;
/** How often to ask for the agent's entry. */
const pollMs = 250;

function speedOf(text: string): number {
  // Number("") is 0 and Number("0x2") is 2, hence the pattern.
  const speed = Number(text);
  if (/^\d+(?:\.\d+)?$/.test(text) && speed >= 0.1 && speed <= 1_000) return speed;
  throw new CoralError({ code: "usage", message: `Cannot use --speed "${text}": write a number from 0.1 to 1000` });
}

/** A saved recording. It has no audit record, so nothing proves that it is unchanged. */
function localFile(file: string): Recording {
  return { bytes: createReadStream(file), sha256: "" };
}

/** Recordings stay at the agent that made them; the colony forwards the bytes through the tunnel. */
async function fromAgent(invocation: Invocation, name: string, signal: AbortSignal): Promise<Recording> {
  const colony = await connectColony(invocation);
  const id = name.replace(/\.cast$/, "");
  let { entries } = await colony.call("coral_get_audit", { id });
  // Right after a command the colony has only its own entry. The agent's entry, which carries the hash, arrives with the next pull.
  for (const endMs = Date.now() + maxWaitMs; isOnItsWay(entries) && Date.now() < endMs; ) {
    await sleep(pollMs, signal);
    ({ entries } = await colony.call("coral_get_audit", { id }));
  }
  const agent = invocation.options.text("agent");
  const recorded = entries.filter(
    ({ recording, agentId, hostname }) =>
      recording !== "" && agentId !== null && (agent === undefined || agentId === agent || hostname === agent),
  );
  const agentIds = new Set(recorded.map(({ agentId }) => agentId));
  const entry = recorded.at(-1);
  if (!entry || entry.agentId === null) {
    throw new CoralError({
      code: "not-found",
      message: `Cannot replay "${name}": it has no recording; coral audit list --kind shell -o wide shows which do`,
    });
  }
  if (agentIds.size > 1) {
    const names = [...new Set(recorded.map(({ hostname }) => hostname))].join(", ");
    throw new CoralError({ code: "usage", message: `Cannot replay "${name}": it ran at ${names}; choose with --agent` });
  }
  const { agentId, recording } = entry;
  return { bytes: colony.bytes("/v1/recordings", { agentId, recording }, signal), sha256: shaIn(recorded) };
}

/** Whether the command has ended but the agent's last entry, which carries the hash, has not been pulled yet. */
function isOnItsWay(entries: readonly AuditEntryFact[]): boolean {
  const recorded = entries.filter(({ recording }) => recording !== "");
  const hasEnded = (agent: string | null): boolean => entries.some(({ agentId, phase }) => agentId === agent && phase === "ended");
  if (recorded.every(({ agentId }) => agentId === null)) return recorded.length > 0;
  return hasEnded(null) && recorded.some(({ agentId }) => agentId !== null && !hasEnded(agentId));
}

function shaIn(entries: readonly AuditEntryFact[]): string {
  for (const { details } of entries) {
    try {
      const { recordingSha256 } = JSON.parse(details) as { recordingSha256?: unknown };
      if (typeof recordingSha256 === "string") return recordingSha256;
    } catch {
      // Entries of older versions have no hash to compare with.
    }
  }
  return "";
}

/** Hashes bytes on their way, so that the recording is read only once. */
async function* hashed(bytes: AsyncIterable<Uint8Array>, hash: ReturnType<typeof createHash>): AsyncGenerator<Uint8Array> {
  for await (const part of bytes) {
    hash.update(part);
    yield part;
  }
}

/** Mode 0600: terminal output may contain secrets. */
async function save(parts: AsyncIterable<Uint8Array>, path: string): Promise<number> {
  let sizeBytes = 0;
  await using file = await open(path, "wx", 0o600).catch((error: unknown) => {
    throw new CoralError({ code: "invalid", message: `Cannot write "${path}": it exists, or its directory does not`, cause: error });
  });
  for await (const part of parts) {
    await file.write(part);
    sizeBytes += part.length;
  }
  return sizeBytes;
}

/** Warns when the terminal is smaller than the recorded one: absolute cursor positions would then overwrite each other. */
function printHeader({ print, io }: Invocation, { width, height, timestamp, title }: CastHeader): void {
  const when = timestamp === null ? "" : `, recorded ${new Date(timestamp * 1_000).toISOString()}`;
  print.note(print.noteStyle("dim", `${width}×${height}${when}${title === "" ? "" : `: ${escapeText(title)}`}`));
  const { columns = 0, rows = 0 } = io.stdout;
  if (io.stdout.isTTY && columns > 0 && (columns < width || rows < height))
    print.warning(`this terminal is smaller than the recording (${columns}×${rows}); the replay may look broken`);
}
