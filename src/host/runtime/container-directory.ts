/** The containers that this agent can see and aim at, whichever runtime keeps them. */

export interface ContainerInfo {
  /** In full. */
  id: string;
  /** As people call it: the container's name in its pod, or Docker's name. Empty when nothing tells it. */
  name: string;
  pod: { name: string; namespace: string; uid: string } | null;
  /** `com.docker.compose.service` and its kin; empty without. */
  service: string;
  image: string;
  /** containerd, crio, docker, podman; `processes` when only its processes are visible. */
  runtime: string;
  isRunning: boolean;
  /** The one that this agent runs in. */
  isOwn: boolean;
}

export interface ContainerExecOptions {
  argv: readonly string[];
  /** Absent: no terminal; stdout and stderr stay apart then. */
  terminal?: { columns: number; rows: number };
  /** Whether anything will be written to it. */
  hasInput: boolean;
  signal: AbortSignal;
}

/** A program that the runtime started inside a container. */
export interface ContainerExec extends AsyncDisposable {
  /** Ends its standard input. */
  endInput(): void;
  /** False: wait for `drained` before writing more. */
  write(data: Uint8Array): boolean;
  drained(): Promise<void>;
  output(): AsyncIterable<{ stream: "stdout" | "stderr"; data: Uint8Array }>;
  /** Only with a terminal. */
  resize(columns: number, rows: number): void;
  /** After all output; rejects when the connection was lost. */
  readonly exitCode: Promise<number>;
}

export interface ContainerDirectory {
  /** Within this agent's scope: a sidecar's own pod, everything elsewhere. Running ones first, then by name. Throws `unavailable` when the runtime does not answer. */
  list(signal: AbortSignal): Promise<ContainerInfo[]>;
  /**
   * By id, the beginning of exactly one id (8 characters at least), name, or `pod/name`. Throws `not-found` naming what there is, and `usage`
   * naming the candidates when several running ones fit.
   */
  find(nameOrId: string, signal: AbortSignal): Promise<ContainerInfo>;
  /**
   * Its first process, numbered as this agent sees processes and checked to be in that container; null when it is not visible here (another pid
   * namespace): then only `exec` reaches it.
   */
  pidOf(container: ContainerInfo, signal: AbortSignal): Promise<number | null>;
  /** Starts a program by the runtime's own way (CRI Exec, Docker exec). Throws `unsupported` where there is no runtime to ask. */
  exec(container: ContainerInfo, options: ContainerExecOptions): Promise<ContainerExec>;
}
