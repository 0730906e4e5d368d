import { basename, join } from "node:path";
import { CoralError } from "../../../base/errors.ts";
import { escapeText } from "../../../base/escape-text.ts";
import { writePrivateFile } from "../../../config/index.ts";
import {
  findPublishedLink,
  maxRangesFileBytes,
  type ProviderRanges,
  type PublishedRanges,
  parseProviderRanges,
  parsePublishedRanges,
  publishedRanges,
} from "../../../tools/index.ts";
import { tableOf, valueColumn } from "../../output/table.ts";
import { grouped, relative } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { isRangeFileName, rangesDirectoryOf, readRangeFile } from "./ranges-directory.ts";

interface Taken {
  provider: string;
  ranges: number;
  publishedAt: string | null;
  /** File name in the colony's directory. */
  file: string;
  /** File or URL that it was read from. */
  source: string;
}

interface Update {
  directory: string;
  updated: Taken[];
  /** Lists whose download failed; the previous versions stay in use. */
  failed: { provider: string; problem: string }[];
}

interface CheckedList {
  taken: Taken;
  text: string;
}

/** For each list; the largest, Azure's, has about 5 MiB. */
const downloadTimeoutMs = 60_000;

/** `coral network ranges update`: downloads or imports lists, and installs only valid ones. */
export async function run(invocation: Invocation): Promise<void> {
  const { options, print } = invocation;
  const directory = await rangesDirectoryOf(invocation);
  const files = options.texts("file");
  const providers = options.texts("provider");
  if (files.length > 0 && providers.length > 0)
    throw new CoralError({ code: "usage", message: "Cannot use --file and --provider together: a file names its own provider" });
  const ask = async (): Promise<Update> => {
    const { lists, failed } =
      files.length > 0 ? { lists: await readFiles(files), failed: [] } : await downloadLists(providers, invocation.io.signal);
    for (const { taken, text } of lists) await writePrivateFile(join(directory, taken.file), text);
    return { directory, updated: lists.map((list) => list.taken), failed };
  };
  await showAnswer(invocation, ask, {
    table: ({ updated }) => {
      const nowMs = Date.now();
      return tableOf(updated, [
        { title: "PROVIDER", key: "provider", cell: (list) => list.provider },
        valueColumn("RANGES", "ranges", (list) => list.ranges, grouped, { align: "right" }),
        { title: "PUBLISHED", key: "publishedAt", cell: (list) => relative(list.publishedAt, nowMs), raw: (list) => list.publishedAt },
        { title: "FILE", key: "file", cell: (list) => list.file },
        { title: "SOURCE", key: "source", cell: (list) => list.source, wide: true },
      ]);
    },
    after: ({ failed }) => {
      for (const { provider, problem } of failed) print.warning(`${escapeText(provider)} was not updated: ${escapeText(problem)}`);
    },
  });
}

/** Validates all files before installing any. */
async function readFiles(files: readonly string[]): Promise<CheckedList[]> {
  const lists: CheckedList[] = [];
  for (const path of files) {
    const { text } = await readRangeFile(path);
    const parsed = parseProviderRanges(text, basename(path));
    const file = targetFile(parsed, path);
    const other = lists.find((list) => list.taken.file === file);
    if (other)
      throw new CoralError({
        code: "usage",
        message: `Cannot import both "${other.taken.source}" and "${path}": both are lists of ${parsed.provider}`,
      });
    lists.push({ taken: takenOf(parsed, file, path), text });
  }
  return lists;
}

/** A published list replaces its downloaded version. A plain list keeps its file name, which names its provider. */
function targetFile(parsed: ProviderRanges, path: string): string {
  const published = publishedRanges.find((list) => list.format === parsed.format && list.provider === parsed.provider);
  if (published) return published.file;
  const name = basename(path)
    .toLowerCase()
    .replace(/[^\w.-]+/g, "-")
    .replace(/^[.-]+/, "");
  return isRangeFileName(name) && name !== "" ? name : `${name || "ranges"}.txt`;
}

/** Downloads in parallel. One failed list does not prevent the update of the others; all failing is an error. */
async function downloadLists(wanted: readonly string[], signal: AbortSignal): Promise<{ lists: CheckedList[]; failed: Update["failed"] }> {
  const chosen = publishedRanges.filter((published) => wanted.length === 0 || wanted.includes(published.id));
  const outcomes = await Promise.allSettled(chosen.map((published) => downloadList(published, signal)));
  signal.throwIfAborted();
  const lists = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  const failed = outcomes.flatMap((outcome, index) =>
    outcome.status === "rejected" ? [{ provider: chosen[index]?.provider ?? "", problem: CoralError.from(outcome.reason).message }] : [],
  );
  if (lists.length === 0) {
    throw new CoralError({
      code: "unavailable",
      message: `Cannot download the ranges: ${failed[0]?.problem ?? "there is nothing to download"}; on a host without internet, download them on another machine and pass them with --file`,
      details: { failed },
    });
  }
  return { lists, failed };
}

/** Azure's list needs two requests: its URL changes weekly and is found only on a page. */
async function downloadList(published: PublishedRanges, signal: AbortSignal): Promise<CheckedList> {
  let { url } = published;
  let text = await download(url, signal);
  if (published.link) {
    url = findPublishedLink(published, text);
    text = await download(url, signal);
  }
  return { taken: takenOf(parsePublishedRanges(published, text), published.file, url), text };
}

function takenOf({ provider, count, publishedAtMs }: ProviderRanges, file: string, source: string): Taken {
  return { provider, ranges: count, publishedAt: publishedAtMs === undefined ? null : new Date(publishedAtMs).toISOString(), file, source };
}

async function download(url: string, signal: AbortSignal): Promise<string> {
  const timeout = AbortSignal.timeout(downloadTimeoutMs);
  try {
    const response = await fetch(url, { signal: AbortSignal.any([signal, timeout]), headers: { "user-agent": "coral" } });
    if (!response.ok) throw new CoralError({ code: "unavailable", message: `${url} returned HTTP status ${response.status}` });
    return await readBounded(response, url);
  } catch (error) {
    if (error instanceof CoralError) throw error;
    const why = timeout.aborted ? `no response within ${downloadTimeoutMs / 1_000} s` : reasonOf(error);
    throw new CoralError({ code: "unavailable", message: `${url} is unreachable (${why})`, cause: error });
  }
}

/** Content-Length may be absent or wrong, so count the bytes while reading. */
async function readBounded(response: Response, url: string): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    if (text.length > maxRangesFileBytes)
      throw new CoralError({ code: "exhausted", message: `${url} sent more than ${maxRangesFileBytes} bytes` });
  }
  return text + decoder.decode();
}

/** fetch() throws "fetch failed"; the system error is in `cause`. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof Error && "code" in cause) return String(cause.code);
  return error instanceof Error ? error.message : String(error);
}
