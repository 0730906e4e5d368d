/** A private containerd with pods from a minimal busybox image. It never touches the machine's own containers. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openGrpcSocket } from "../../src/host/runtime/grpc-socket.ts";
import { hasProgram } from "./has-program.ts";
import { waitFor } from "./wait-for.ts";

const image = "docker.io/coral-test/busybox:1";
const node = 2;
const pod = 0;
const ownPid = 1;

/** The reason why this machine cannot start pods; undefined when it probably can. */
export function containerdSkipReason(): string | undefined {
  if (process.getuid?.() !== 0) return "needs root, to run containerd";
  const missing = ["containerd", "runc", "ctr"].filter((program) => !hasProgram(program));
  if (missing.length > 0) return `needs ${missing.join(", ")} (apt-get install containerd)`;
  // A dynamically linked busybox would not start in an image without libraries.
  const isStatic = existsSync("/bin/busybox") && !readFileSync("/bin/busybox").includes("/ld-linux");
  return isStatic ? undefined : "needs a static busybox (apt-get install busybox-static)";
}

type Field = readonly [number: number, value: string | number | Buffer | readonly Field[]];

/** Hand-encoded protocol buffers, for requests that only tests send. */
function encode(fields: readonly Field[]): Buffer {
  const varint = (value: number): Buffer => {
    const bytes: number[] = [];
    for (let rest = value; ; rest = Math.floor(rest / 128)) {
      bytes.push(rest < 128 ? rest : (rest % 128) + 128);
      if (rest < 128) return Buffer.from(bytes);
    }
  };
  return Buffer.concat(
    fields.flatMap(([number, value]) => {
      if (typeof value === "number") return [varint(number * 8), varint(value)];
      const body = typeof value === "string" ? Buffer.from(value) : Buffer.isBuffer(value) ? value : encode(value as readonly Field[]);
      return [varint(number * 8 + 2), varint(body.length), body];
    }),
  );
}

const labelsOf = (number: number, labels: Readonly<Record<string, string>>): Field[] =>
  Object.entries(labels).map(
    ([key, value]): Field => [
      number,
      [
        [1, key],
        [2, value],
      ],
    ],
  );

/** The text of field 1. */
const idIn = (answer: Uint8Array): string => Buffer.from(answer.subarray(2)).toString("utf8");

export interface PodOptions {
  name: string;
  namespace?: string;
  uid: string;
  labels?: Readonly<Record<string, string>>;
  /** `pod`: shareProcessNamespace; `node`: hostPID. */
  pid?: "container" | "pod" | "node";
}

export interface TestPod {
  id: string;
  options: PodOptions;
  config: readonly Field[];
}

export interface ContainerOptions {
  command: readonly string[];
  /** Default: read-only. */
  mounts?: readonly { from: string; to: string; isWritable?: boolean }[];
  env?: Readonly<Record<string, string>>;
  /** Capabilities beyond the default set, such as SYS_ADMIN. */
  capabilities?: readonly string[];
}

export class TestContainerd implements AsyncDisposable {
  readonly directory: string;
  readonly socketPath: string;
  readonly #process: ChildProcess;
  readonly #pods: string[] = [];

  private constructor(directory: string, daemon: ChildProcess) {
    this.directory = directory;
    this.socketPath = join(directory, "containerd.sock");
    this.#process = daemon;
  }

  static async start(): Promise<TestContainerd> {
    const directory = mkdtempSync(join(tmpdir(), "coral-ctd-"));
    writeFileSync(join(directory, "config.toml"), configOf(directory));
    const daemon = spawn("containerd", ["--config", join(directory, "config.toml"), "--log-level", "error"], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    let output = "";
    daemon.stderr?.setEncoding("utf8").on("data", (text: string) => (output = `${output}${text}`.slice(-4_096)));
    const started = new TestContainerd(directory, daemon);
    try {
      await waitFor("containerd", async () => {
        if (daemon.exitCode !== null) throw new Error(`containerd ended: ${output}`);
        try {
          await started.#call("Version", []);
          return true;
        } catch {
          // Not yet.
          return false;
        }
      });
      execFileSync("ctr", ["-a", started.socketPath, "-n", "k8s.io", "images", "import", "--snapshotter", "native", makeImage(directory)], {
        stdio: "pipe",
      });
    } catch (error) {
      await started[Symbol.asyncDispose]();
      throw error;
    }
    return started;
  }

  async runPod(options: PodOptions): Promise<TestPod> {
    const { name, namespace = "shop", uid, labels = {}, pid = "container" } = options;
    const known = { "io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": namespace, "io.kubernetes.pod.uid": uid, ...labels };
    const namespaces: Field = [
      1,
      [
        [1, node],
        [2, pid === "node" ? node : pid === "pod" ? pod : ownPid],
      ],
    ];
    const config: Field[] = [
      [
        1,
        [
          [1, name],
          [2, uid],
          [3, namespace],
        ],
      ],
      [3, join(this.directory, "logs")],
      ...labelsOf(6, known),
      [8, [[2, [namespaces]]]],
    ];
    const id = idIn(await this.#call("RunPodSandbox", [[1, config]]));
    this.#pods.push(id);
    return { id, options, config };
  }

  /** The full id. */
  async runContainer(
    inPod: TestPod,
    name: string,
    { command, mounts = [], env = {}, capabilities = [] }: ContainerOptions,
  ): Promise<string> {
    const { options } = inPod;
    const pid = options.pid === "node" ? node : options.pid === "pod" ? pod : ownPid;
    const labels = {
      "io.kubernetes.container.name": name,
      "io.kubernetes.pod.name": options.name,
      "io.kubernetes.pod.namespace": options.namespace ?? "shop",
      "io.kubernetes.pod.uid": options.uid,
    };
    const config: Field[] = [
      [1, [[1, name]]],
      [2, [[1, image]]],
      ...command.map((word): Field => [3, word]),
      ...Object.entries(env).map(
        ([key, value]): Field => [
          6,
          [
            [1, key],
            [2, value],
          ],
        ],
      ),
      ...mounts.map(
        ({ from, to, isWritable = false }): Field => [
          7,
          [
            [1, to],
            [2, from],
            [3, isWritable ? 0 : 1],
          ],
        ],
      ),
      ...labelsOf(9, labels),
      [11, `${name}.log`],
      [
        15,
        [
          [
            2,
            [
              [1, capabilities.map((name): Field => [1, name])],
              [
                3,
                [
                  [1, node],
                  [2, pid],
                ],
              ],
            ],
          ],
        ],
      ],
    ];
    const id = idIn(
      await this.#call("CreateContainer", [
        [1, inPod.id],
        [2, config],
        [3, inPod.config],
      ]),
    );
    await this.#call("StartContainer", [[1, id]]);
    return id;
  }

  async stopContainer(id: string): Promise<void> {
    await this.#call("StopContainer", [[1, id]]);
  }

  async #call(method: string, fields: readonly Field[]): Promise<Uint8Array> {
    using socket = openGrpcSocket(this.socketPath);
    return await socket.call({
      method: `/runtime.v1.RuntimeService/${method}`,
      body: encode(fields),
      timeoutMs: 30_000,
      signal: new AbortController().signal,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const id of this.#pods.splice(0)) {
      // A container that cannot be removed ends with its shim below.
      await this.#call("StopPodSandbox", [[1, id]]).catch(() => undefined);
      await this.#call("RemovePodSandbox", [[1, id]]).catch(() => undefined);
    }
    this.#process.kill("SIGTERM");
    if (this.#process.exitCode === null) await new Promise((resolve) => this.#process.once("exit", resolve));
    unmountBelow(this.directory);
    rmSync(this.directory, { recursive: true, force: true });
  }
}

function configOf(directory: string): string {
  mkdirSync(join(directory, "logs"));
  const cri = 'plugins."io.containerd.grpc.v1.cri"';
  return `version = 2
root = "${directory}/root"
state = "${directory}/state"
[grpc]
  address = "${directory}/containerd.sock"
[${cri}]
  sandbox_image = "${image}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [${cri}.containerd]
    snapshotter = "native"
    [${cri}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
`;
}

/** An image archive in the format of `docker save`. */
function makeImage(directory: string): string {
  const files = join(directory, "image");
  for (const name of ["bin", "proc", "sys", "dev", "etc", "tmp", "run"]) mkdirSync(join(files, name), { recursive: true });
  copyFileSync("/bin/busybox", join(files, "bin/busybox"));
  chmodSync(join(files, "bin/busybox"), 0o755);
  const applets = ["sh", "sleep", "cat", "echo", "ls", "ps", "true", "false", "head", "stty", "yes", "tr", "hostname"];
  for (const applet of applets) execFileSync("ln", ["-sf", "busybox", join(files, "bin", applet)]);
  // The kernel names a script's process after the script.
  writeFileSync(join(files, "pause"), "#!/bin/sh\ntrap 'exit 0' TERM INT\nwhile :; do sleep 3600 & wait $!; done\n", { mode: 0o755 });
  const archive = join(directory, "archive");
  mkdirSync(archive);
  execFileSync("tar", ["-C", files, "-cf", join(archive, "layer.tar"), "."]);
  const layer = createHash("sha256")
    .update(readFileSync(join(archive, "layer.tar")))
    .digest("hex");
  const architecture = process.arch === "x64" ? "amd64" : process.arch;
  const config = {
    architecture,
    os: "linux",
    config: { Cmd: ["/pause"], Env: ["PATH=/bin"], WorkingDir: "/" },
    rootfs: { type: "layers", diff_ids: [`sha256:${layer}`] },
  };
  writeFileSync(join(archive, "config.json"), JSON.stringify(config));
  writeFileSync(join(archive, "manifest.json"), JSON.stringify([{ Config: "config.json", RepoTags: [image], Layers: ["layer.tar"] }]));
  const file = join(directory, "image.tar");
  execFileSync("tar", ["-C", archive, "-cf", file, "."]);
  return file;
}

function unmountBelow(directory: string): void {
  const mounts = readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .map((line) => line.split(" ")[4] ?? "")
    .filter((path) => path.startsWith(`${directory}/`));
  for (const path of mounts.reverse()) {
    try {
      execFileSync("umount", ["-l", path], { stdio: "ignore" });
    } catch {
      // Already unmounted together with its parent.
    }
  }
}
