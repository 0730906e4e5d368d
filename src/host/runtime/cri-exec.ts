/**
 * CRI's exec: the runtime returns the URL of a WebSocket with the streams as Kubernetes channels. Runtimes bind it to the host's loopback. A pod with
 * its own network cannot reach it, and uses ExecSync for commands without input and terminal.
 */

import { CoralError } from "../../base/errors.ts";
import type { ContainerExec, ContainerExecOptions } from "./container-directory.ts";
import { type ContainerTarget, checkArgv } from "./container-exec.ts";
import { openCriClient } from "./cri-client.ts";
import { OutputQueue } from "./exec-streams.ts";
import { openWebSocket, type WebSocketConnection } from "./web-socket.ts";

const channel = { stdin: 0, stdout: 1, stderr: 2, status: 3, resize: 4 } as const;
const connectTimeoutMs = 3_000;
/** ExecSync has no other way to end unless it is cancelled. */
const syncTimeoutMs = 600_000;

export async function execByCri(target: ContainerTarget, options: ContainerExecOptions): Promise<ContainerExec> {
  checkArgv(options.argv);
  using client = openCriClient(target.path);
  const tty = options.terminal !== undefined;
  // CRI refuses a separate stderr together with a terminal.
  const request = { containerId: target.containerId, cmd: [...options.argv], tty, stdin: options.hasInput, stdout: true, stderr: !tty };
  const url = await client.exec(request, options.signal);
  try {
    return await connectStreams(url, options);
  } catch (error) {
    options.signal.throwIfAborted();
    if (!tty && !options.hasInput) return await execSync(target, options);
    throw new CoralError({
      code: "unsupported",
      message: `Cannot reach the streams of the container runtime at ${hostOf(url)}: ${CoralError.from(error).message}; give the agent's pod hostNetwork: true, or shareProcessNamespace: true`,
      cause: error,
    });
  }
}

async function connectStreams(url: string, options: ContainerExecOptions): Promise<ContainerExec> {
  if (!url.startsWith("http://"))
    throw new CoralError({ code: "unsupported", message: "they use TLS with a certificate that cannot be verified" });
  let settle: { resolve: (code: number) => void; reject: (error: unknown) => void } = { resolve: () => undefined, reject: () => undefined };
  const exitCode = new Promise<number>((resolve, reject) => {
    settle = { resolve, reject };
  });
  // A caller that reads only the output must not end the process.
  exitCode.catch(() => undefined);
  let connection: WebSocketConnection | undefined;
  let reported: ReturnType<typeof exitIn> | undefined;
  const queue = new OutputQueue(() => connection?.resume());
  connection = await openWebSocket(
    { url, protocol: "v4.channel.k8s.io", timeoutMs: connectTimeoutMs, signal: options.signal },
    {
      onMessage: (message) => {
        const data = message.subarray(1);
        // Each channel is announced by an empty message.
        if (data.length === 0) return;
        if (message[0] === channel.status) reported = exitIn(data.toString("utf8"));
        else if (!queue.push({ stream: message[0] === channel.stderr ? "stderr" : "stdout", data })) connection?.pause();
      },
      onEnd: (error) => {
        const failure = reported === undefined ? (error ?? lost()) : "problem" in reported ? failed(reported.problem) : undefined;
        queue.end(failure);
        if (reported && "code" in reported) settle.resolve(reported.code);
        else settle.reject(failure);
      },
    },
  );
  const open = connection;
  const send = (kind: number, data: Uint8Array): boolean => open.send(Buffer.concat([Buffer.from([kind]), data]));
  const resize = (columns: number, rows: number): void => {
    if (options.terminal) send(channel.resize, Buffer.from(JSON.stringify({ Width: columns, Height: rows })));
  };
  if (options.terminal) resize(options.terminal.columns, options.terminal.rows);
  return {
    write: (data) => send(channel.stdin, data),
    drained: () => open.drained(),
    // Channels cannot be closed one by one; a terminal accepts the end-of-file character instead.
    endInput: () => {
      if (options.terminal) send(channel.stdin, Buffer.from([4]));
    },
    output: () => queue.read(),
    resize,
    exitCode,
    [Symbol.asyncDispose]: async () => open.close(),
  };
}

function lost(): CoralError {
  return new CoralError({ code: "unavailable", message: "the container runtime closed the connection without an exit code" });
}

function failed(problem: string): CoralError {
  return new CoralError({ code: "invalid", message: `Cannot run the program in the container: ${problem}` });
}

/** `{"status":"Success"}`, a failure whose causes hold the exit code, or a failure to start it at all. */
export function exitIn(status: string): { code: number } | { problem: string } {
  try {
    const parsed = JSON.parse(status) as {
      status?: unknown;
      message?: unknown;
      details?: { causes?: { reason?: unknown; message?: unknown }[] };
    };
    if (parsed.status === "Success") return { code: 0 };
    const cause = parsed.details?.causes?.find(({ reason }) => reason === "ExitCode");
    const code = Number(cause?.message);
    if (Number.isInteger(code) && code > 0 && code < 256) return { code };
    return { problem: typeof parsed.message === "string" ? parsed.message.slice(0, 512) : "the container runtime gave no reason" };
  } catch {
    // It failed without a reason.
    return { problem: "the container runtime gave no reason" };
  }
}

async function execSync(target: ContainerTarget, options: ContainerExecOptions): Promise<ContainerExec> {
  using client = openCriClient(target.path);
  const queue = new OutputQueue(() => undefined);
  const { stdout, stderr, exitCode } = await client.execSync(
    { containerId: target.containerId, argv: options.argv, timeoutMs: syncTimeoutMs },
    options.signal,
  );
  if (stdout.length > 0) queue.push({ stream: "stdout", data: stdout });
  if (stderr.length > 0) queue.push({ stream: "stderr", data: stderr });
  queue.end();
  return {
    write: () => true,
    drained: () => Promise.resolve(),
    endInput: () => undefined,
    output: () => queue.read(),
    resize: () => undefined,
    exitCode: Promise.resolve(exitCode),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

function hostOf(url: string): string {
  return /^https?:\/\/([^/]+)/.exec(url)?.[1] ?? "an unknown address";
}
