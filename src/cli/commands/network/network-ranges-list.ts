import { join } from "node:path";
import { CoralError } from "../../../base/errors.ts";
import { parseProviderRanges } from "../../../tools/index.ts";
import { tableOf } from "../../output/table.ts";
import { grouped, relative } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { listRangeFiles, rangesDirectoryOf, readRangeFile } from "./ranges-directory.ts";

interface RangeFile {
  file: string;
  provider: string | null;
  format: string | null;
  /** Null when the file is invalid; `problem` has the reason. */
  ranges: number | null;
  publishedAt: string | null;
  updatedAt: string | null;
  problem: string | null;
}

/** `coral network ranges list`. */
export async function run(invocation: Invocation): Promise<void> {
  const directory = await rangesDirectoryOf(invocation);
  const ask = async (): Promise<{ directory: string; files: RangeFile[] }> => {
    const files: RangeFile[] = [];
    for (const name of await listRangeFiles(directory)) files.push(await describeFile(directory, name));
    return { directory, files };
  };
  await showAnswer(invocation, ask, {
    table: ({ files }) => {
      const nowMs = Date.now();
      return tableOf(files, [
        { title: "PROVIDER", key: "provider", cell: (file) => file.provider },
        {
          title: "RANGES",
          key: "ranges",
          cell: (file) => (file.ranges === null ? null : grouped(file.ranges)),
          raw: (file) => file.ranges,
          align: "right",
        },
        { title: "PUBLISHED", key: "publishedAt", cell: (file) => relative(file.publishedAt, nowMs), raw: (file) => file.publishedAt },
        { title: "UPDATED", key: "updatedAt", cell: (file) => relative(file.updatedAt, nowMs), raw: (file) => file.updatedAt },
        { title: "FILE", key: "file", cell: (file) => file.file },
        { title: "FORMAT", key: "format", cell: (file) => file.format, wide: true },
        {
          title: "PROBLEM",
          key: "problem",
          cell: (file) => (file.problem === null ? null : { text: file.problem, style: "red" }),
          raw: (file) => file.problem,
          wide: files.every((file) => file.problem === null),
        },
      ]);
    },
    empty: 'No ranges installed, so cloud and CDN addresses stay unnamed; run "coral network ranges update"',
  });
}

/** Parses the file as the colony does, so that the list shows what the colony uses. */
async function describeFile(directory: string, file: string): Promise<RangeFile> {
  let updatedAt: string | null = null;
  try {
    const { text, changedAtMs } = await readRangeFile(join(directory, file));
    updatedAt = new Date(changedAtMs).toISOString();
    const { provider, format, count, publishedAtMs } = parseProviderRanges(text, file);
    const publishedAt = publishedAtMs === undefined ? null : new Date(publishedAtMs).toISOString();
    return { file, provider, format, ranges: count, publishedAt, updatedAt, problem: null };
  } catch (error) {
    // Shown per file, so that one invalid list does not hide the others.
    return { file, provider: null, format: null, ranges: null, publishedAt: null, updatedAt, problem: CoralError.from(error).message };
  }
}
