import { expect, it } from "vitest";
import type { DiagnosisResult } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { plainStyle } from "../../output/style.ts";
import { diagnosisPage } from "./diagnosis-page.ts";

const print = { width: 80, style: plainStyle, commands: (text: string) => text } as Printer;
const answer: DiagnosisResult = {
  verdict: "issue",
  summary: "stock is slow by itself",
  entry: null,
  from: "2026-01-02T10:00:00.000Z",
  until: "2026-01-02T10:05:00.000Z",
  comparedWith: [{ from: "2026-01-02T09:00:00.000Z", until: "2026-01-02T09:59:00.000Z" }],
  isOnsetFound: true,
  isOver: false,
  causes: [
    {
      service: "stock",
      kind: "slow",
      pointer: "GET /reserve/{id}",
      confidence: 0.87,
      summary: "stock is slow by itself",
      chain: ["shop", "stock"],
      evidence: [{ id: "ev-8200f310", statement: `GET /reserve/{id} takes 193 ms, was 37.1 ms (5.2×) ${"and so on ".repeat(20)}` }],
      change: null,
    },
  ],
  ruledOut: [{ service: "shop", reason: "suffers from stock: GET /buy takes 203 ms, was 63.5 ms (3.2×)" }],
  next: [{ command: "coral query red stock --since 11m", why: "look at it" }],
};

it("diagnosisPage() answers in the first line and fits 80 columns", () => {
  const lines = diagnosisPage(answer, print, Date.parse(answer.until)).split("\n");
  expect(lines[0]).toBe("stock is slow by itself (87% sure)");
  expect(lines[1]).toMatch(/^ {2}GET \/reserve\/\{id\} takes 193 ms, was 37\.1 ms \(5\.2×\) and/);
  expect(lines).toContain("path: shop → stock");
  expect(lines).toContain("next: coral query red stock --since 11m");
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
});

it("diagnosisPage() shows the strongest statement whole, over several lines, and the others on one line each", () => {
  const statement = "UPDATE stock SET units = units - ? WHERE item = ? fails in 100% with 55P03 (a lock was not granted in time), usual 0%";
  const [cause] = answer.causes;
  const evidence = [statement, statement].map((text, index) => ({ id: `ev-${index}`, statement: text }));
  const page = diagnosisPage({ ...answer, causes: cause ? [{ ...cause, evidence }] : [] }, print, Date.parse(answer.until));
  expect(page).toContain(
    "  UPDATE stock SET units = units - ? WHERE item = ? fails in 100% with 55P03 (a\n  lock was not granted in time), usual 0%  ev-0\n",
  );
  expect(page).toMatch(/ {2}UPDATE stock .*… {2}ev-1\n/);
});

it("diagnosisPage() says when the trouble is over", () => {
  const page = diagnosisPage({ ...answer, isOver: true }, print, Date.parse(answer.until) + 90_000);
  expect(page).toMatch(/\(5m\), over for 1m 30s, compared with 59m before\n/);
});

it("diagnosisPage() says that there is no issue", () => {
  const quiet = { ...answer, verdict: "no-issue" as const, summary: "No issue: all is as usual.", causes: [], ruledOut: [], next: [] };
  expect(diagnosisPage(quiet, print, Date.parse(answer.until))).toMatch(/^No issue: all is as usual\.\n(?:from|since) /);
});

it("diagnosisPage() never truncates a command, and uses the program name as called", () => {
  const command = `coral query database postgres --statement '${"SELECT * FROM orders WHERE ".repeat(4)}'`;
  const installed = { ...print, commands: (text: string) => text.replace(/^coral /, "bin/coral ") } as Printer;
  const page = diagnosisPage({ ...answer, next: [{ command, why: "its plan" }] }, installed, Date.parse(answer.until));
  expect(page.split("\n")).toContain(`next: bin/${command}`);
});
