/** Serves segments to the colony: lists those after a number, and reads files. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { CoralError } from "../../base/errors.ts";
import type {
  ListSegmentsRequest,
  ListSegmentsResponseSchema,
  ReadSegmentRequest,
  ReadSegmentResponseSchema,
  SegmentListSchema,
} from "../../proto/coral/agent/v1/agent_pb.ts";
import type { AgentStore } from "../../store/agent/index.ts";
import type { AgentSegments } from "../../store/segments/index.ts";
import { type ServedFile, toConnectError } from "../../transport/index.ts";

type SegmentStoreView = Pick<AgentStore, "epoch"> & Partial<Pick<AgentStore, "segments">>;

/** Upper limit of one list; a colony's request cannot exceed it. */
const maxSegmentsPerSignal = 256;

/** At most `maxSegments` per signal; `more` says whether to list again. */
export async function serveListSegments(
  store: SegmentStoreView,
  request: ListSegmentsRequest,
): Promise<MessageInitShape<typeof ListSegmentsResponseSchema>> {
  // Read both before any await: a store that is replaced in between has another epoch.
  const { epoch, segments } = store;
  const lists: MessageInitShape<typeof SegmentListSchema>[] = [];
  const maxSegments = Math.min(maxSegmentsPerSignal, Math.max(1, request.maxSegments));
  for (const { signal, afterNumber } of request.cursors) {
    // A newer colony may know signals that this agent does not have.
    if (segments?.has(signal)) lists.push(await listSignal(segments, signal, Number(afterNumber), maxSegments));
  }
  return { epoch, lists };
}

async function listSignal(
  segments: AgentSegments,
  signal: string,
  afterNumber: number,
  maxSegments: number,
): Promise<MessageInitShape<typeof SegmentListSchema>> {
  const { lastNumber, totalRows, entries, more } = segments.listAfter(signal, afterNumber, maxSegments);
  const filters = await segments.lookupFilters(entries);
  return {
    signal,
    lastNumber: BigInt(lastNumber),
    totalRows: BigInt(totalRows),
    more,
    segments: entries.map((entry) => {
      const lookupFilter = filters.get(entry);
      return {
        firstNumber: BigInt(entry.firstNumber),
        number: BigInt(entry.number),
        rowsBefore: BigInt(entry.rowsBefore),
        rows: BigInt(entry.rows),
        sizeBytes: BigInt(entry.sizeBytes),
        minTimeUs: BigInt(entry.minTimeUs),
        maxTimeUs: BigInt(entry.maxTimeUs),
        services: [...(entry.services ?? [])],
        manyServices: entry.services === null,
        ...(lookupFilter && { lookupFilter: Uint8Array.from(lookupFilter) }),
        schemaVersion: entry.schemaVersion,
        sha256: entry.sha256,
        lost: entry.state === "lost",
      };
    }),
  };
}

/** A segment by its name in the tunnel: `segments/<epoch>/<signal>/<number>`. */
export function findSegmentFile(store: SegmentStoreView, name: string): ServedFile | undefined {
  const [kind, epoch, signal = "", number] = name.split("/");
  const { segments } = store;
  if (kind !== "segments" || epoch !== store.epoch || !segments?.has(signal)) return undefined;
  return segments.locate(signal, Number(number));
}

/** For older colonies, which do not read files through the tunnel. */
export async function* serveReadSegment(
  store: SegmentStoreView,
  request: ReadSegmentRequest,
): AsyncGenerator<MessageInitShape<typeof ReadSegmentResponseSchema>> {
  const { segments } = store;
  try {
    if (segments === undefined || request.epoch !== store.epoch) {
      throw new CoralError({
        code: "not-found",
        message: `Cannot read segment ${request.number}: it belongs to another epoch; list segments again`,
      });
    }
    for await (const data of segments.read(request.signal, Number(request.number), Number(request.offsetBytes))) {
      yield { data };
    }
  } catch (error) {
    // Interceptors do not see a stream's failure: without this its code would be lost.
    throw toConnectError(error);
  }
}
