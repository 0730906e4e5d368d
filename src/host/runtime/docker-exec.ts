/** Docker's exec: the HTTP connection is upgraded to a raw one that carries the streams. */

import { request } from "node:http";
import type { Socket } from "node:net";
import { CoralError } from "../../base/errors.ts";
import type { ContainerExec, ContainerExecOptions } from "./container-directory.ts";
import { type ContainerTarget, checkArgv } from "./container-exec.ts";
import { openDockerClient } from "./docker-client.ts";
import { OutputQueue } from "./exec-streams.ts";
import { socketError } from "./grpc-socket.ts";

const headerBytes = 8;
const stderrKind = 2;

export async function execByDocker({ path, containerId }: ContainerTarget, options: ContainerExecOptions): Promise<ContainerExec> {
  checkArgv(options.argv);
  const client = openDockerClient(path);
  const created = await client.post(
    `/containers/${encodeURIComponent(containerId)}/exec`,
    {
      Cmd: options.argv,
      Tty: options.terminal !== undefined,
      AttachStdin: options.hasInput,
      AttachStdout: true,
      AttachStderr: true,
    },
    options.signal,
  );
  const id = (created as { Id?: unknown } | null)?.Id;
  if (typeof id !== "string")
    throw new CoralError({ code: "unavailable", message: `Cannot run a program in container "${containerId}": the response has no id` });
  const { socket, head } = await hijack(path, `/exec/${id}/start`, { Detach: false, Tty: options.terminal !== undefined }, options.signal);
  const queue = new OutputQueue(() => socket.resume());
  const ended = new Promise<void>((resolve, reject) => {
    const take = options.terminal ? (data: Buffer) => queue.push({ stream: "stdout", data }) : demultiplex(queue);
    const onData = (data: Buffer): void => {
      if (!take(data)) socket.pause();
    };
    if (head.length > 0) onData(head);
    socket.on("data", onData);
    socket.on("end", resolve);
    socket.on("close", () => resolve());
    socket.on("error", reject);
  });
  const exitCode = ended.then(
    async () => {
      queue.end();
      const state = (await client.get(`/exec/${id}/json`, options.signal)) as { ExitCode?: unknown } | null;
      return typeof state?.ExitCode === "number" ? state.ExitCode : 0;
    },
    (error: unknown) => {
      queue.end(socketError(path, error));
      throw socketError(path, error);
    },
  );
  // A caller that reads only the output must not end the process.
  exitCode.catch(() => undefined);
  const resize = (columns: number, rows: number): void => {
    // The program keeps its old size if this fails.
    client.post(`/exec/${id}/resize?h=${rows}&w=${columns}`, undefined, options.signal).catch(() => undefined);
  };
  if (options.terminal) resize(options.terminal.columns, options.terminal.rows);
  return {
    write: (data) => socket.write(data),
    drained: () => new Promise((resolve) => (socket.writableNeedDrain ? socket.once("drain", resolve) : resolve())),
    endInput: () => socket.end(),
    output: () => queue.read(),
    resize,
    exitCode,
    [Symbol.asyncDispose]: async () => {
      socket.destroy();
    },
  };
}

/** Parses frames of `[kind, 0, 0, 0, length]` and data, which may be split anywhere. */
export function demultiplex(queue: Pick<OutputQueue, "push">): (data: Buffer) => boolean {
  let rest: Buffer = Buffer.alloc(0);
  return (data) => {
    rest = rest.length === 0 ? data : Buffer.concat([rest, data]);
    let hasRoom = true;
    while (rest.length >= headerBytes) {
      const sizeBytes = rest.readUInt32BE(4);
      if (rest.length < headerBytes + sizeBytes) break;
      const stream = rest[0] === stderrKind ? "stderr" : "stdout";
      hasRoom = queue.push({ stream, data: rest.subarray(headerBytes, headerBytes + sizeBytes) }) && hasRoom;
      rest = rest.subarray(headerBytes + sizeBytes);
    }
    return hasRoom;
  };
}

function hijack(path: string, route: string, body: unknown, signal: AbortSignal): Promise<{ socket: Socket; head: Buffer }> {
  return new Promise((resolve, reject) => {
    const text = JSON.stringify(body);
    const headers = {
      host: "docker",
      "content-type": "application/json",
      "content-length": Buffer.byteLength(text),
      connection: "Upgrade",
      upgrade: "tcp",
    };
    const asking = request({ socketPath: path, method: "POST", path: route, headers, signal, agent: false });
    asking.on("upgrade", (_response, socket, head) => resolve({ socket, head }));
    asking.on("response", (response) => {
      response.resume();
      reject(
        new CoralError({
          code: "unavailable",
          message: `Cannot run the program: the container runtime at ${path} returned HTTP ${response.statusCode}`,
        }),
      );
    });
    asking.on("error", (error) => reject(socketError(path, error)));
    asking.end(text);
  });
}
