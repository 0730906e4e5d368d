import { describe, expect, it, vi } from "vitest";
import type { ColonyBackend } from "../contract/backend.ts";
import type { ConnectionList } from "../schemas/traffic.ts";
import { call, messages } from "../traffic/traffic-tools.fixture.ts";

describe("coral_query_connections", () => {
  it("passes the filters on and notes truncation", async () => {
    const connections = vi.fn<ColonyBackend["connections"]>(async () => ({
      total: 2,
      unattributed: 6,
      rows: [
        {
          service: "api",
          role: "client",
          protocol: "tcp",
          peer: "db",
          peerAddress: "10.0.0.9",
          serverPort: 5432,
          open: 1,
          opened: 3,
          closed: 2,
          failed: 1,
          refused: 1,
          reset: 0,
          timedOut: 0,
          bytesSent: 10,
          bytesReceived: 20,
          rttUs: 120,
          retransmits: 0,
          lastSeenAt: "2026-01-02T00:00:00.000Z",
        },
      ],
    }));
    const answer = await call<ConnectionList>("coral_query_connections", { service: "api", role: "client", since: "1h" }, { connections });
    expect(connections.mock.calls[0]?.[0]).toEqual({ service: "api", role: "client", sinceMs: 3_600_000, limit: 50 });
    expect(messages(answer)).toEqual([
      "1 of 2 rows are shown; narrow with service or peer, or raise limit",
      expect.stringMatching(/^6 connections and failed attempts are excluded: their processes exited/),
    ]);
  });
});
