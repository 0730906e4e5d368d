import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { type AuditEntry, blankAuditEntry } from "../signals/audit.ts";
import { AuditWriter, type AuditWriterOptions } from "./audit-writer.ts";

let directory: string;
let committed: AuditEntry[];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "coral-audit-writer-"));
  committed = [];
});
afterEach(() => rmSync(directory, { recursive: true }));

const file = (): string => join(directory, "journal");
const lines = (): string[] => readFileSync(file(), "utf8").split("\n").filter(Boolean);
const entry = (command_id: string): AuditEntry => ({ ...blankAuditEntry(1, 1), kind: "exec", phase: "begun", command_id });
const ids = (): string[] => committed.map(({ command_id }) => command_id);

const openWriter = (more: Partial<AuditWriterOptions> = {}): Promise<AuditWriter> =>
  AuditWriter.open({
    file: file(),
    commit: async (entries) => void committed.push(...entries),
    isCommitted: async ({ command_id }) => ids().includes(command_id),
    log: silentLogger,
    retryMs: 5,
    ...more,
  });

/** A commit that blocks until it is released. */
function gate() {
  let open: () => void = () => undefined;
  const passed = new Promise<void>((resolve) => (open = resolve));
  return { passed, open: () => open() };
}

describe("AuditWriter", () => {
  it("keeps an entry in its file until it is committed", async () => {
    const { passed, open } = gate();
    await using writer = await openWriter({
      commit: async (entries) => {
        await passed;
        committed.push(...entries);
      },
    });
    await writer.write(entry("a"));
    await writer.write(entry("b"));
    expect([lines().length, ids()]).toEqual([2, []]);
    open();
    await writer.settled();
    expect([lines().length, ids()]).toEqual([0, ["a", "b"]]);
    expect(statSync(file()).mode & 0o777).toBe(0o600);
  });

  it("commits what a killed process left, each entry once, in order, and skips an incomplete line", async () => {
    const { passed, open } = gate();
    const stuck = await openWriter({ commit: () => passed });
    for (const id of ["a", "b", "c"]) await stuck.write(entry(id));
    appendFileSync(file(), '{"kind":"ex');
    committed.push(entry("a"));
    await using next = await openWriter();
    expect([ids(), lines()]).toEqual([["a", "b", "c"], []]);
    await next.write(entry("d"));
    await next.settled();
    expect(ids()).toEqual(["a", "b", "c", "d"]);
    open();
    await stuck.close();
  });

  it("retries until the database accepts the entries, and loses none written meanwhile", async () => {
    let failures = 3;
    await using writer = await openWriter({
      commit: async (entries) => {
        if (failures-- > 0) throw new Error("busy");
        committed.push(...entries);
      },
    });
    for (let index = 0; index < 20; index++) await writer.write(entry(`e${index}`));
    await vi.waitFor(() => expect(ids()).toEqual(Array.from({ length: 20 }, (_, index) => `e${index}`)));
    await writer.settled();
    expect(lines()).toEqual([]);
  });

  it("keeps all concurrent entries while commits and truncation run", async () => {
    await using writer = await openWriter({
      commit: async (entries) => {
        await new Promise((resolve) => setTimeout(resolve, 1));
        committed.push(...entries);
      },
    });
    for (let round = 0; round < 50; round++)
      await Promise.all(Array.from({ length: 10 }, (_, index) => writer.write(entry(`${round}-${index}`))));
    await writer.settled();
    expect([new Set(ids()).size, ids().length, lines().length]).toEqual([500, 500, 0]);
  });

  it("rejects entries when too many are queued", async () => {
    const { passed, open } = gate();
    const writer = await openWriter({ commit: () => passed });
    const results = await Promise.allSettled(Array.from({ length: 1_100 }, (_, index) => writer.write(entry(`${index}`))));
    expect(results.filter(({ status }) => status === "rejected")).toHaveLength(100);
    open();
    await writer.close();
  });

  it("keeps in its file at close what the database rejects", async () => {
    const commit = vi.fn<AuditWriterOptions["commit"]>(() => Promise.reject(new Error("full")));
    const writer = await openWriter({ commit, retryMs: 60_000 });
    await writer.write(entry("a"));
    await vi.waitFor(() => expect(commit).toHaveBeenCalled());
    expect(lines()).toHaveLength(1);
    await writer.close();
    await expect(writer.write(entry("b"))).rejects.toThrow("closed");
    await using next = await openWriter();
    expect(ids()).toEqual(["a"]);
    await next.close();
  });

  it("opens on a full disk with entries of the previous process, and stores them in order when possible", async () => {
    const refuse = vi.fn<AuditWriterOptions["commit"]>(() => Promise.reject(new Error("full")));
    const former = await openWriter({ commit: refuse, retryMs: 60_000 });
    await former.write(entry("a"));
    await vi.waitFor(() => expect(refuse).toHaveBeenCalled());
    await former.close();
    appendFileSync(file(), '{"kind":"ex');
    let isFull = true;
    await using next = await openWriter({
      commit: async (entries) => {
        if (isFull) throw new Error("full");
        committed.push(...entries);
      },
    });
    expect(next.waiting.map(({ command_id }) => command_id)).toEqual(["a"]);
    await next.derived([entry("b")]);
    await next.write(entry("c"));
    expect([ids(), lines().map((line) => JSON.parse(line).command_id)]).toEqual([[], ["a", "c"]]);
    isFull = false;
    await next.settled();
    expect([ids(), lines()]).toEqual([["a", "b", "c"], []]);
  });
});
