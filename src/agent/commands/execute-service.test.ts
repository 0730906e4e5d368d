import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import type { CommandAuditEntry, ExecSettings } from "../../exec/index.ts";
import { processesWithVariable } from "../../host/index.ts";
import {
  type CommandOrderSchema,
  type ExecuteRequest,
  ExecuteRequestSchema,
  type ExecuteResponseSchema,
} from "../../proto/coral/agent/v1/commands_pb.ts";
import { createExecuteService, type ExecuteService } from "./execute-service.ts";

type Response = MessageInitShape<typeof ExecuteResponseSchema>;
type Order = Omit<MessageInitShape<typeof CommandOrderSchema>, "$typeName">;

const settings: ExecSettings = {
  profile: "full",
  rules: [
    {
      name: "hold",
      action: "require_approval",
      program: ["date"],
      args: [],
      user: [],
      target: [],
      environment: [],
      kind: [],
      runAs: undefined,
    },
  ],
  runAs: undefined,
  timeoutMs: 20_000,
  maxOutputBytes: 1024 ** 2,
  maxRunning: 4,
  limits: { memoryBytes: 256 * 1024 ** 2, cpus: 1, processes: 64 },
  recordings: { enabled: true, maxSizeBytes: 1024 ** 2, maxAgeMs: 60_000 },
  environmentAllow: ["*"],
  modelHosts: [],
  approvalTimeoutMs: 5_000,
};

let directory: string;
let service: ExecuteService;
let audit: CommandAuditEntry[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "coral-execute-"));
  audit = [];
  service = createExecuteService({
    settings: () => settings,
    environment: () => "",
    audit: {
      write: async (entry) => {
        audit.push(entry);
      },
    },
    pidsOf: async () => [],
    containers: undefined,
    recordingsDirectory: directory,
    clock: systemClock,
    log: silentLogger,
  });
});
afterEach(async () => {
  await service[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

type Input = { case: "input"; value: Uint8Array } | { case: "inputEnds"; value: true };

async function* requests(order: Order, more: Input[] = []): AsyncGenerator<ExecuteRequest> {
  yield create(ExecuteRequestSchema, { message: { case: "order", value: { commandId: randomUUID(), kind: "exec", ...order } } });
  for (const message of more) yield create(ExecuteRequestSchema, { message });
}

async function collect(responses: AsyncIterable<Response>) {
  const cases: string[] = [];
  const output = { stdout: "", stderr: "" };
  let ended: Extract<NonNullable<Response["event"]>, { case: "ended" }>["value"] | undefined;
  for await (const { event } of responses) {
    if (!event?.case) continue;
    if (event.case !== "output" || cases.at(-1) !== "output") cases.push(event.case);
    if (event.case === "output")
      output[event.value.stream === "stderr" ? "stderr" : "stdout"] += Buffer.from(event.value.data ?? []).toString();
    if (event.case === "ended") ended = event.value;
  }
  return { cases, ...output, ended };
}

const never = new AbortController().signal;

describe("createExecuteService()", () => {
  it("streams the start, the output and the end", async () => {
    const answer = await collect(
      service.execute(
        requests({ text: "cat | wc -c" }, [
          { case: "input", value: Buffer.from("12345") },
          { case: "inputEnds", value: true },
        ]),
        never,
      ),
    );
    expect(answer).toMatchObject({
      cases: ["started", "output", "ended"],
      stdout: "5\n",
      ended: { reason: "exited", exitCode: 0, rule: "profile full", stdoutBytes: 2n },
    });
    expect(service.running).toBe(0);
  });

  it("reports a refusal with its code and rule instead of throwing", async () => {
    const denied = await collect(service.execute(requests({ argv: ["rm", "x"], readOnly: true }), never));
    expect(denied).toMatchObject({
      cases: ["ended"],
      ended: { reason: "denied", code: "not-permitted", rule: "profile diagnostics", problem: expect.stringContaining("rm") },
    });
    expect(await collect(service.execute(requests({ text: "a;b" }), never))).toMatchObject({ ended: { reason: "failed", code: "usage" } });
    const none = (async function* (): AsyncGenerator<ExecuteRequest> {})();
    expect(await collect(service.execute(none, never))).toMatchObject({ ended: { reason: "failed", code: "invalid" } });
    const wrong = (async function* () {
      yield create(ExecuteRequestSchema, { message: { case: "inputEnds", value: true } });
    })();
    expect(await collect(service.execute(wrong, never))).toMatchObject({ ended: { code: "invalid" } });
    expect(await collect(service.execute(requests({ commandId: "../../x", text: "true" }), never))).toMatchObject({
      ended: { code: "invalid" },
    });
  });

  it("reports a command that needs approval, and runs it when approved", async () => {
    const commandId = randomUUID();
    const responses = service.execute(requests({ commandId, text: "date" }, [{ case: "inputEnds", value: true }]), never);
    const first = await responses.next();
    expect(first.value).toMatchObject({ event: { case: "approvalNeeded", value: { approvalId: commandId, rule: "hold" } } });
    await service.decideApproval({ approvalId: commandId, isApproved: true, decidedBy: "boss", reason: "" });
    expect(await collect(responses)).toMatchObject({ cases: ["started", "output", "ended"], ended: { exitCode: 0 } });
    await expect(service.decideApproval({ approvalId: commandId, isApproved: true, decidedBy: "boss", reason: "" })).rejects.toMatchObject({
      code: "not-found",
    });
    expect(audit.map(({ phase }) => phase)).toEqual(["held", "decided", "begun", "ended"]);
  });

  it("ends the command when the reader stops or the connection breaks", async () => {
    const processesOf = (id: string): number[] => processesWithVariable(`CORAL_COMMAND_ID=${id}`);
    const first = randomUUID();
    for await (const { event } of service.execute(requests({ commandId: first, argv: ["sleep", "1000"] }), never))
      if (event?.case === "started") break;
    await expect.poll(() => processesOf(first)).toEqual([]);
    const second = randomUUID();
    const broken = new AbortController();
    const answer = collect(service.execute(requests({ commandId: second, argv: ["sleep", "1000"] }), broken.signal));
    await expect.poll(() => processesOf(second).length).toBeGreaterThan(0);
    broken.abort();
    expect(await answer).toMatchObject({ ended: { reason: "cancelled" } });
    expect(processesOf(second)).toEqual([]);
    await expect.poll(() => audit.filter(({ phase }) => phase === "ended").length).toBe(2);
  });

  it("serves recordings", async () => {
    const commandId = randomUUID();
    const terminal = { columns: 80, rows: 24, type: "xterm" };
    const { ended, stdout } = await collect(
      service.execute(requests({ commandId, kind: "shell", argv: ["/bin/sh", "-c", "echo seen"], terminal }), never),
    );
    expect(stdout).toBe("seen\r\n");
    expect(ended).toMatchObject({ recording: `${commandId}.cast` });
    let text = "";
    for await (const { data } of service.readRecording(`${commandId}.cast`)) text += Buffer.from(data).toString();
    expect(text).toContain('"o","seen\\r\\n"');
  });
});
