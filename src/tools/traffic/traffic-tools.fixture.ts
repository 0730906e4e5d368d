/** Calls of the tools that show requests, and facts to call them with. */

import type { RedFact } from "../../model/red.ts";
import { colonyTools } from "../colony-tools.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { findTool } from "../contract/tool-list.ts";
import { colonyOf, context } from "../sample-colony.fixture.ts";
import type { Answer } from "../schemas/completeness.ts";

export async function call<T>(name: string, input: unknown, colony: Partial<ColonyBackend> = {}): Promise<Answer<T>> {
  return (await findTool(colonyTools, name, "debug").call(colonyOf(colony), input, context)) as Answer<T>;
}

export const messages = (answer: Answer<unknown>): string[] => answer.completeness.notes.map((note) => note.message);

export function redFact(service: string, more: Partial<RedFact> = {}): RedFact {
  return {
    service,
    role: "server",
    protocol: "http",
    isTls: false,
    peer: null,
    method: null,
    route: null,
    status: null,
    requests: 600,
    tlsRequests: 0,
    errors: 0,
    requestBytes: 6_000,
    responseBytes: 60_000,
    meanUs: 1_000,
    p50Us: 900,
    p95Us: 2_000,
    p99Us: 4_000,
    queueMeanUs: 100,
    queueP95Us: 300,
    firstByteP50Us: 800,
    firstByteP95Us: 1_800,
    before: null,
    points: [],
    ...more,
  };
}

export const redOf =
  (rows: RedFact[], more: { total?: number; windowMs?: number; bucketMs?: number } = {}): ColonyBackend["red"] =>
  async () => ({ rows, total: rows.length, windowMs: 60_000, bucketMs: 5_000, ...more });
