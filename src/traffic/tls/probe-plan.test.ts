import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, readSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readElfImage } from "../../code/index.ts";
import { hideFunctionTable } from "./hidden-function-table.fixture.ts";
import { type PlanProblem, type ProbePlan, planProbes, siteCookies } from "./probe-plan.ts";

function planOf(path: string, isExecutable = true): ProbePlan | PlanProblem | null {
  const fd = openSync(path, "r");
  try {
    const image = readElfImage((into, offset) => readSync(fd, into, 0, into.length, offset));
    return image === null ? null : planProbes(image, isExecutable);
  } finally {
    closeSync(fd);
  }
}

/** Bytes at the site of each probe. */
function bytesAt(path: string, plan: ProbePlan): string[] {
  const bytes = readFileSync(path);
  return plan.probes.map(({ fileOffset }) => bytes.subarray(fileOffset, fileOffset + 2).toString("hex"));
}

function expectPlan(plan: ProbePlan | PlanProblem | null): asserts plan is ProbePlan {
  expect(plan).not.toBeNull();
  expect(plan).not.toHaveProperty("problem");
}

const libssl = "/usr/lib/x86_64-linux-gnu/libssl.so.3";
const operationsOf = (plan: ProbePlan, program: string): number[] =>
  [...new Set(plan.probes.filter((probe) => probe.program === program).map(({ cookie }) => cookie & 15))].sort();
/** push, nop, relative branch, jump or call: instructions that the kernel emulates. */
const emulated = /^(?:5[0-7]|415[0-7]|90|0f1f|7.|0f8.|e8|e9|eb)/;

describe.skipIf(process.arch !== "x64")("planProbes()", () => {
  it.skipIf(!existsSync(libssl))("finds cheap sites in libssl", () => {
    const plan = planOf(libssl, false);
    expectPlan(plan);
    expect(plan.library).toBe("openssl");
    expect(plan.costNs).toBeLessThan(2_000);
    expect(operationsOf(plan, "tls_enter")).toEqual([siteCookies.write, siteCookies.free]);
    expect(plan.probes.some(({ program }) => program === "tls_copy")).toBe(true);
    for (const bytes of bytesAt(libssl, plan)) expect(bytes).toMatch(emulated);
  });

  it.skipIf(!existsSync(libssl))("probes entry and return of reads where the copy site is ambiguous", () => {
    const directory = mkdtempSync(join(tmpdir(), "coral-plan-"));
    try {
      const path = join(directory, "libssl.so.3");
      const bytes = readFileSync(libssl);
      hideFunctionTable(bytes);
      writeFileSync(path, bytes);
      const plan = planOf(path, false);
      expectPlan(plan);
      expect(plan.costNs).toBeLessThan(2_000);
      expect(operationsOf(plan, "tls_enter")).toEqual([siteCookies.read, siteCookies.write, siteCookies.free]);
      expect(plan.probes.some(({ program }) => program === "tls_copy")).toBe(false);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  it("finds cheap sites in Node's executable", () => {
    const path = realpathSync(process.execPath);
    const plan = planOf(path);
    expectPlan(plan);
    expect(plan.costNs).toBeLessThan(2_000);
    expect(operationsOf(plan, "tls_enter")).toEqual([siteCookies.write, siteCookies.free]);
    expect(plan.probes.some(({ program }) => program === "tls_copy")).toBe(true);
    for (const bytes of bytesAt(path, plan)) expect(bytes).toMatch(emulated);
  });

  it("finds nothing in a program without TLS", () => {
    expect(planOf("/bin/sh")).toBeNull();
  });

  describe.skipIf(spawnSync("sh", ["-c", "command -v go"]).status !== 0)("in Go programs", () => {
    let directory = "";
    beforeAll(() => {
      directory = mkdtempSync(join(tmpdir(), "coral-plan-"));
      const main = (body: string, imports: string): string => `package main\n\nimport (\n${imports})\n\nfunc main() {\n${body}}\n`;
      writeFileSync(
        join(directory, "tls.go"),
        main(
          '\tc, err := tls.Dial("tcp", os.Args[1], nil)\n\tif err == nil {\n\t\tc.Read(make([]byte, 9))\n\t\tc.Write(nil)\n\t}\n',
          '\t"crypto/tls"\n\t"os"\n',
        ),
      );
      writeFileSync(join(directory, "plain.go"), main("\tos.Exit(3)\n", '\t"os"\n'));
      const env = { ...process.env, GO111MODULE: "off", GOCACHE: process.env["GOCACHE"] ?? join(tmpdir(), "coral-go-cache") };
      for (const name of ["tls", "plain"]) {
        execFileSync("go", ["build", "-o", name, "-ldflags", "-s -w", `${name}.go`], { cwd: directory, env });
      }
    }, 120_000);
    afterAll(() => rmSync(directory, { recursive: true, force: true }));

    it("finds cheap sites in a stripped one", () => {
      const path = join(directory, "tls");
      const plan = planOf(path);
      expectPlan(plan);
      expect(plan.library).toBe("go");
      expect(plan.probes.every(({ isReturn }) => !isReturn)).toBe(true);
      expect(plan.costNs).toBeLessThan(1_000);
      // One site for a write, which may be restarted; one for a read, with the frame that holds its arguments.
      expect(plan.probes.map(({ program }) => program)).toEqual(["tls_plaintext", "tls_plaintext"]);
      expect(plan.probes.filter(({ cookie }) => (cookie & siteCookies.mayBeginAgain) !== 0)).toHaveLength(1);
      expect(plan.probes.filter(({ cookie }) => cookie >> siteCookies.frameShift > 0)).toHaveLength(1);
      for (const bytes of bytesAt(path, plan)) expect(bytes).toMatch(emulated);
    });

    it("finds nothing in one without TLS", () => {
      expect(planOf(join(directory, "plain"))).toBeNull();
    });
  });
});
