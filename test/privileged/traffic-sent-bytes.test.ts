/** Sent bytes are read from TCP's own copy (probes/requests/sent-bytes.h). Statuses must be right for every way of sending, and never come from stale bytes. */

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { readElfImage } from "../../src/code/index.ts";
import { probesSkipReason, requestsObject } from "../support/bpf-skip-reason.ts";
import { hasProgram } from "../support/has-program.ts";
import { RequestObserver } from "../support/request-observer.ts";
import { runProgram } from "../support/run-program.ts";

const script = fileURLToPath(new URL("../support/ways-to-send.py", import.meta.url));

/** Offset of a variable in its section, by the object's symbols: BTF has offsets only after loading. */
function offsetOf(variable: string): number {
  const file = readFileSync(requestsObject);
  const image = readElfImage((target, offset) => file.copy(target, 0, offset));
  const symbols = image?.section(".symtab");
  const names = image?.sections[symbols?.link ?? 0];
  if (symbols === undefined || names === undefined) throw new Error(`${requestsObject} has no symbols`);
  for (let at = symbols.fileOffset; at < symbols.fileOffset + symbols.sizeBytes; at += 24) {
    const nameAt = names.fileOffset + file.readUInt32LE(at);
    if (file.toString("latin1", nameAt, file.indexOf(0, nameAt)) === variable) return Number(file.readBigUInt64LE(at + 8));
  }
  throw new Error(`${requestsObject} has no ${variable}`);
}

function bytesOf(observer: RequestObserver, variable: string): bigint {
  const offset = offsetOf(variable);
  let value = 0n;
  observer.hooks.object.map(".bss").readAll((_keys, _keyAt, values, at) => {
    value = values.readBigUInt64LE(at + offset);
  });
  return value;
}

describe("sent bytes", () => {
  let server: ChildProcessByStdio<null, Readable, null> | undefined;
  let port = 0;

  beforeAll(async () => {
    if (probesSkipReason() !== undefined || !hasProgram("python3")) return;
    server = spawn("python3", [script, "server"], { stdio: ["ignore", "pipe", "inherit"] });
    const [text] = await once(server.stdout, "data");
    port = Number(String(text));
  });

  afterAll(() => {
    server?.kill();
  });

  beforeEach((context) => {
    const reason = probesSkipReason() ?? (hasProgram("python3") ? undefined : "there is no python3");
    context.skip(reason !== undefined, reason);
  });

  const ask = async (...paths: string[]): Promise<void> => {
    const run = await runProgram("python3", [script, "client", String(port), ...paths], { env: { PATH: process.env["PATH"] ?? "" } });
    expect(run).toMatchObject({ code: 0, stderr: "" });
  };

  it("are found in the kernel after the first few responses", async (context) => {
    context.skip(process.arch !== "x64", "only x86-64 maps all memory contiguously");
    await using observer = await RequestObserver.open();
    await ask(...Array.from({ length: 20 }, () => "/send/200"));
    await observer.waitForCount(port, 20);
    expect(bytesOf(observer, "page_base")).not.toBe(0n);
  });

  it.each(["send", "write", "pieces", "message", "long"])("are read correctly when sent by %s", async (way) => {
    await using observer = await RequestObserver.open();
    await ask(...Array.from({ length: 60 }, (_, index) => `/${way}/${[200, 404, 500][index % 3]}`));
    await observer.waitForCount(port, 60);
    const expected = Object.fromEntries([200, 404, 500].map((status) => [`GET /${way}/{id} ${status}`, 20]));
    expect(observer.counts(port, "server")).toEqual(expected);
    expect(observer.counts(port, "client")).toEqual(expected);
  });

  it.each(["zerocopy", "zerosend"])("are not confused with earlier bytes of the same length when sent by %s", async (way) => {
    await using observer = await RequestObserver.open();
    await ask(...Array.from({ length: 60 }, (_, index) => (index % 2 === 0 ? "/send/200" : `/${way}/500`)));
    await observer.waitForCount(port, 60);
    expect(observer.counts(port, "server")).toEqual({ "GET /send/{id} 200": 30, [`GET /${way}/{id} 500`]: 30 });
  });

  it("are separate for each thread", async () => {
    await using observer = await RequestObserver.open();
    await Promise.all(
      [200, 404, 500, 503].map((status) =>
        ask(...Array.from({ length: 100 }, (_, index) => `/${["send", "pieces"][index % 2]}/${status}`)),
      ),
    );
    await observer.waitForCount(port, 400);
    const expected = Object.fromEntries(
      [200, 404, 500, 503].flatMap((status) => ["send", "pieces"].map((way) => [`GET /${way}/{id} ${status}`, 50])),
    );
    expect(observer.counts(port, "server")).toEqual(expected);
  });
});
