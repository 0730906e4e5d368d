import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { readBtfLayout } from "../../bpf/index.ts";
import { trafficProtocols } from "../../model/protocols.ts";
import { controlsLayout } from "./kernel-controls.ts";
import { kernelLosses, learnRecordLayout, requestKeyLayout, requestSlotLayout, requestStatsLayout, sweepLayout } from "./kernel-layout.ts";
import { payloadRecordLayout } from "./payload-records.ts";

const directory = mkdtempSync(join(tmpdir(), "coral-layouts-"));
afterAll(() => rmSync(directory, { recursive: true }));

/** BTF holds only types that a variable uses. */
const source = `#include "requests/requests.bpf.c"
struct payload_record payload_record_here; struct learn_record learn_record_here; enum protocol protocol_here; enum loss loss_here;
`;

/** Compiled from source: an earlier build may be stale. */
function compile(): string {
  const object = join(directory, "requests.bpf.o");
  writeFileSync(join(directory, "layouts.c"), source);
  const probes = fileURLToPath(new URL("../../../probes", import.meta.url));
  const architecture = process.arch === "arm64" ? "-D__TARGET_ARCH_arm64" : "-D__TARGET_ARCH_x86";
  execFileSync(
    "clang",
    ["-O2", "-g", "-target", "bpf", "-mcpu=v3", architecture, `-I${probes}`, "-c", join(directory, "layouts.c"), "-o", object],
    { stdio: "pipe" },
  );
  return object;
}

const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

describe.runIf(spawnSync("clang", ["--version"]).status === 0)("layouts shared with BPF programs", () => {
  const layout = readBtfLayout(compile());

  it.each([
    ["controls", controlsLayout],
    ["payload_record", payloadRecordLayout],
    ["learn_record", learnRecordLayout],
    ["request_key", requestKeyLayout],
    ["request_stats", requestStatsLayout],
    ["request_slot", requestSlotLayout],
    ["sweep", sweepLayout],
  ] as const)("struct %s has its fields where they are read", (name, { sizeBytes, ...offsets }) => {
    const struct = layout.struct(name);
    expect(struct.sizeBytes).toBe(sizeBytes);
    const found = Object.keys(offsets).map((field) => [field, struct.fields.get(snakeCase(field))?.offsetBytes]);
    expect(Object.fromEntries(found)).toEqual(offsets);
  });

  it("protocols and losses have the same numbers as in C", () => {
    const protocols = layout.enumeration("protocol");
    expect(trafficProtocols.map((name) => protocols.get(`PROTOCOL_${name.toUpperCase()}`))).toEqual(
      trafficProtocols.map((_, index) => index + 1),
    );
    const losses = layout.enumeration("loss");
    const names = kernelLosses.map((loss) => `LOSS_${loss.toUpperCase().replaceAll("-", "_")}`);
    expect(names.map((name) => losses.get(name))).toEqual(names.map((_, index) => index));
  });
});
