import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { abilityNames } from "./kernel-ability.ts";
import { probeKernelAbilities } from "./probe-kernel-abilities.ts";

const directory = mkdtempSync(join(tmpdir(), "coral-abilities-"));
afterAll(() => rmSync(directory, { recursive: true }));

/** A child that speaks the real protocol, with a body in place of the kernel. The body can use `print`, `wanted` and `ok(name)`. */
function fakeChild(name: string, body: string): { childPath: string; objectPath: string } {
  const childPath = join(directory, `${name}.mjs`);
  const prelude = `
    import { writeSync } from "node:fs";
    const print = (message) => writeSync(1, JSON.stringify(message) + "\\n");
    const ok = (name) => { print({ begin: name }); print({ end: name, outcome: { stage: "attached" } }); };
    const wanted = process.argv.slice(3);
  `;
  writeFileSync(childPath, prelude + body);
  return { childPath, objectPath: "unused" };
}

const namesOf = (list: Awaited<ReturnType<typeof probeKernelAbilities>>, available: boolean): string[] =>
  list.filter((ability) => ability.available === available).map(({ name }) => name);

describe("probeKernelAbilities()", () => {
  it("reports every ability, in order", async () => {
    const abilities = await probeKernelAbilities(fakeChild("good", "print({ capabilities: '0', hasBtf: true }); wanted.forEach(ok);"));
    expect(abilities.map(({ name }) => name)).toEqual(abilityNames);
    expect(namesOf(abilities, false)).toEqual([]);
  });

  it("attributes a crash to the ability that was being tried, and tries the others", async () => {
    const body =
      "for (const name of wanted) { if (name === 'uprobe') { print({ begin: name }); process.kill(process.pid, 'SIGSEGV'); await new Promise(() => setInterval(() => {}, 1000)); } ok(name); }";
    const abilities = await probeKernelAbilities(fakeChild("crash", body));
    expect(namesOf(abilities, false)).toEqual(["uprobe"]);
    expect(abilities.find(({ name }) => name === "uprobe")).toMatchObject({ reason: "the attempt ended the child process (SIGSEGV)" });
  });

  it("kills a child that hangs", async () => {
    const body =
      "for (const name of wanted) { if (name === 'fentry') { print({ begin: name }); await new Promise(() => setInterval(() => {}, 1000)); } ok(name); }";
    const abilities = await probeKernelAbilities({ ...fakeChild("hang", body), timeoutMs: 5000 });
    expect(abilities.find(({ name }) => name === "fentry")).toMatchObject({
      available: false,
      reason: "the attempt did not finish within 5000 ms",
    });
    expect(namesOf(abilities, false)).toEqual(["fentry"]);
  });

  it("does not retry when the child dies before the first attempt", async () => {
    const abilities = await probeKernelAbilities(fakeChild("dead", "process.exit(3);"));
    expect(abilities).toHaveLength(abilityNames.length);
    for (const ability of abilities)
      expect(ability).toMatchObject({ available: false, reason: "the check ended the child process (exit code 3)" });
  });

  it("names the package when libbpf is missing", async () => {
    const abilities = await probeKernelAbilities(
      fakeChild("nolib", "print({ libraryMissing: 'libbpf.so.1: cannot open shared object file' });"),
    );
    for (const ability of abilities) expect(ability).toMatchObject({ available: false, fix: "apt-get install libbpf1" });
  });

  it("stops when the signal aborts", async () => {
    const body = "print({ begin: wanted[0] }); await new Promise(() => setInterval(() => {}, 1000));";
    const probing = probeKernelAbilities({ ...fakeChild("abort", body), signal: AbortSignal.timeout(300) });
    await expect(probing).rejects.toThrow(/timeout/);
  });
});
