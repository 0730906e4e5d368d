import { closeSync, mkdtempSync, openSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createProbePlanner, type FilePlan, type FileToPlan } from "./probe-planner.ts";

const directory = mkdtempSync(join(tmpdir(), "coral-planner-"));
const opened: number[] = [];
afterAll(() => {
  for (const fd of opened) closeSync(fd);
  rmSync(directory, { recursive: true });
});

function open(path: string, isExecutable = true): FileToPlan {
  const fd = openSync(path, "r");
  opened.push(fd);
  return { fd, isExecutable };
}

/** A child with the real protocol. Its body can use `kinds`, `begin(index)` and `end(index, plan)`. */
function fakeChild(name: string, body: string): string {
  const path = join(directory, `${name}.mjs`);
  const prelude = `
    import { readSync, writeSync } from "node:fs";
    const kinds = process.argv.slice(2);
    const begin = (index) => writeSync(1, JSON.stringify({ begin: index }) + "\\n");
    const end = (index, plan) => writeSync(1, JSON.stringify({ end: index, plan }) + "\\n");
    const firstByte = (index) => { const byte = Buffer.alloc(1); readSync(3 + index, byte, 0, 1, 0); return byte.toString(); };
  `;
  writeFileSync(path, prelude + body);
  return path;
}

/** Files that hold one letter each. */
function letters(text: string): FileToPlan[] {
  return [...text].map((letter) => {
    const path = join(directory, `letter-${letter}`);
    writeFileSync(path, letter);
    return open(path, letter === letter.toUpperCase());
  });
}

const problems = (plans: readonly FilePlan[]): (string | null)[] =>
  plans.map(({ plan }) => (plan === null ? null : "problem" in plan ? plan.problem : plan.library));
const plansAll = `kinds.forEach((kind, index) => { begin(index); end(index, { library: "openssl", problem: kind + " " + firstByte(index) }); }); process.exit(0);`;

describe("createProbePlanner()", () => {
  it("passes the files by descriptor, in order, also more than one process takes", async () => {
    const text = "AbC".repeat(25);
    const planner = createProbePlanner({ childPath: fakeChild("good", plansAll) });
    const plans = await planner.plan(letters(text));
    expect(problems(plans)).toEqual([...text].map((letter) => `${letter === "b" ? "library" : "program"} ${letter}`));
    expect(plans.every(({ isFinal }) => isFinal)).toBe(true);
  });

  it("attributes a crash to the file that was being read, and plans the others", async () => {
    const body = `for (const index of kinds.keys()) { begin(index); if (firstByte(index) === "x") process.abort(); end(index, null); } process.exit(0);`;
    const plans = await createProbePlanner({ childPath: fakeChild("crash", body) }).plan(letters("axbxc"));
    const died = "the process that reads its machine code ended with SIGABRT";
    expect(problems(plans)).toEqual([null, died, null, died, null]);
    expect(plans.map(({ isFinal }) => isFinal)).toEqual([true, false, true, false, true]);
  });

  it("kills a process that hangs", async () => {
    const body = `begin(0); if (firstByte(0) === "h") setInterval(() => {}, 1000); else { end(0, null); process.exit(0); }`;
    const plans = await createProbePlanner({ childPath: fakeChild("hang", body), timeoutMs: 5_000 }).plan(letters("ha"));
    expect(problems(plans)).toEqual(["the process that reads its machine code did not end within 5000 ms", null]);
  });

  it("does not start one process per file when processes fail to start", async () => {
    const mark = join(directory, "starts");
    writeFileSync(mark, "");
    const body = `import { appendFileSync } from "node:fs"; appendFileSync(${JSON.stringify(mark)}, "."); process.exit(3);`;
    const plans = await createProbePlanner({ childPath: fakeChild("dead", body) }).plan(letters("abc"));
    expect(problems(plans)).toEqual(Array(3).fill("the process that reads its machine code ended with exit code 3"));
    expect(readFileSync(mark, "utf8")).toBe(".");
  });

  it("stops when the signal aborts", async () => {
    const planner = createProbePlanner({ childPath: fakeChild("abort", "begin(0); setInterval(() => {}, 1000);") });
    await expect(planner.plan(letters("a"), AbortSignal.timeout(300))).rejects.toThrow(/timeout/);
  });

  it.skipIf(process.arch !== "x64")("plans node's own executable in a process, and nothing for a file without TLS", async () => {
    const [node, sh] = await createProbePlanner().plan([open(realpathSync(process.execPath)), open("/bin/sh")]);
    expect(node?.plan).toMatchObject({ library: "openssl", probes: expect.any(Array) });
    expect(sh).toEqual({ plan: null, isFinal: true });
  });
});
