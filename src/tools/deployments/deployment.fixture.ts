import type { Deployment } from "../schemas/deployment.ts";

/** Ten minutes before 2026-01-02, complete and without a change. */
export const deploymentOf = (more: Partial<Deployment> = {}): Deployment => ({
  id: "dep-1",
  service: "api",
  at: new Date(Date.UTC(2026, 0, 2) - 600_000).toISOString(),
  foundBy: ["build"],
  build: "bbbbbbbbbbbbbbbb",
  previousBuild: "aaaaaaaaaaaaaaaa",
  version: null,
  previousVersion: null,
  note: "",
  markedBy: null,
  agents: ["web-1"],
  verdict: "no-change",
  reason: "",
  isComplete: true,
  report: null,
  state: "complete",
  shares: [],
  endedAt: null,
  ...more,
});
