import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { type SegmentList, SegmentListSchema } from "../../proto/coral/agent/v1/agent_pb.ts";
import { segmentBatches } from "./segment-batches.ts";

const mebibyte = 1024 ** 2;

function listOf(signal: string, segments: number, { sizeBytes = 1_000, more = false } = {}): SegmentList {
  return create(SegmentListSchema, {
    signal,
    lastNumber: BigInt(segments),
    totalRows: BigInt(segments * 10),
    more,
    segments: Array.from({ length: segments }, (_, index) => ({
      firstNumber: BigInt(index + 1),
      number: BigInt(index + 1),
      rowsBefore: BigInt(index * 10),
      rows: 10n,
      sizeBytes: BigInt(sizeBytes),
    })),
  });
}

/** Each commit as `signal first-last`, with a full stop where the agent has no more. */
const shapeOf = (lists: SegmentList[]): string[] =>
  segmentBatches(lists).batches.map((batch) =>
    batch
      .map(({ signal, offers, isAll }) => `${signal} ${offers[0]?.number ?? ""}-${offers.at(-1)?.number ?? ""}${isAll ? "." : ""}`)
      .join(", "),
  );

describe("segmentBatches()", () => {
  it.each<[string, SegmentList[], string[], boolean]>([
    ["nothing", [listOf("span", 0)], ["span -."], true],
    ["a few of two signals in one commit", [listOf("span", 2), listOf("log", 3)], ["span 1-2., log 1-3."], true],
    ["many, eight in a commit", [listOf("span", 20)], ["span 1-8", "span 9-16", "span 17-20."], true],
    [
      "a commit of the end of one list and the beginning of another",
      [listOf("span", 10), listOf("log", 8)],
      ["span 1-8", "span 9-10., log 1-6", "log 7-8."],
      true,
    ],
    ["a list that ends with its commit", [listOf("span", 8), listOf("log", 1)], ["span 1-8.", "log 1-1."], true],
    ["a list of which the agent has more", [listOf("span", 2, { more: true }), listOf("log", 1)], ["span 1-2, log 1-1."], false],
    ["large ones, up to 64 MiB in a commit", [listOf("span", 4, { sizeBytes: 30 * mebibyte })], ["span 1-2", "span 3-4."], true],
    [
      "up to 128 MiB of all, and at least one of each list",
      [listOf("span", 9, { sizeBytes: 30 * mebibyte }), listOf("log", 2)],
      ["span 1-2", "span 3-4, log 1-2."],
      false,
    ],
    [
      "one that is larger than a commit",
      [listOf("span", 2, { sizeBytes: 200 * mebibyte }), listOf("log", 2)],
      ["span 1-1", "log 1-1"],
      false,
    ],
  ])("takes %s", (_what, lists, shape, isAll) => {
    expect(shapeOf(lists)).toEqual(shape);
    expect(segmentBatches(lists).isAll).toBe(isAll);
  });
});
