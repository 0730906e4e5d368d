/** Streams and environment of a command. Injectable, so that tests see what a user sees. */

export interface OutputStream {
  write(text: string | Uint8Array): unknown;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
  rows?: number | undefined;
  on?(event: "error", listener: (error: Error) => void): unknown;
  /** Returns false when the caller should wait for "drain". */
  readonly writableNeedDrain?: boolean | undefined;
  once?(event: "drain" | "close", listener: () => void): unknown;
  off?(event: "drain" | "close", listener: () => void): unknown;
}

/** Terminal control for full-screen commands. */
export interface TerminalControl {
  /** Reports key presses, without echo, until the returned function is called. */
  readKeys(listener: (key: string) => void): () => void;
  /** Raw input: the terminal processes nothing itself, not even Ctrl-C. */
  readBytes(listener: (data: Uint8Array) => void): () => void;
  onResize(listener: () => void): () => void;
}

export interface CliIo {
  stdout: OutputStream;
  stderr: OutputStream;
  /** Read to the end for `-` arguments. On a terminal, print a prompt first. */
  stdin: AsyncIterable<Uint8Array | string> & { isTTY?: boolean | undefined };
  env: Readonly<Record<string, string | undefined>>;
  /** Ends a running command, such as --watch. */
  signal: AbortSignal;
  /** Absent where there is no terminal to control. */
  terminal?: TerminalControl;
}

/** The real streams of this process. */
export function processIo(signal: AbortSignal): CliIo {
  const { stdout, stderr, stdin, env } = process;
  return { stdout, stderr, stdin, env, signal, terminal: { readKeys, readBytes, onResize } };
}

/** For screens of this program. Raw mode delivers keys at once and without echo; Ctrl-C arrives as U+0003. */
function readKeys(listener: (key: string) => void): () => void {
  const { stdin } = process;
  // In `coral top < file`, stdin is not the keyboard.
  if (!stdin.isTTY) return () => undefined;
  const onData = (data: Buffer): void => listener(data.toString("utf8"));
  stdin.setRawMode(true);
  stdin.on("data", onData).resume();
  return () => {
    stdin.off("data", onData).pause();
    stdin.setRawMode(false);
  };
}

/** For coral shell: every byte goes to the remote program, so that its own key bindings work. */
function readBytes(listener: (data: Uint8Array) => void): () => void {
  const { stdin } = process;
  if (!stdin.isTTY) return () => undefined;
  const restore = (): void => {
    stdin.setRawMode(false);
  };
  stdin.setRawMode(true);
  keepLineFeeds();
  // A terminal left in raw mode is unusable.
  process.once("exit", restore);
  stdin.on("data", listener).resume();
  return () => {
    process.off("exit", restore);
    stdin.off("data", listener).pause();
    restore();
  };
}

/**
 * Disables output post-processing (OPOST). Node's raw mode leaves ONLCR on, which turns LF into CR LF, but full-screen programs
 * use LF to move down in the same column. Leaving raw mode restores the setting.
 */
function keepLineFeeds(): void {
  // Some containers lack stty; full-screen programs may look wrong there.
  process.getBuiltinModule("node:child_process").spawnSync("stty", ["-opost"], { stdio: ["inherit", "ignore", "ignore"] });
}

/** Node emits `resize` on SIGWINCH, after updating columns and rows. */
function onResize(listener: () => void): () => void {
  process.stdout.on("resize", listener);
  return () => process.stdout.off("resize", listener);
}
