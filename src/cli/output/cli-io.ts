/** The streams and surroundings of a command; injectable, so that tests see what a user sees. */

export interface OutputStream {
  write(text: string | Uint8Array): unknown;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
  rows?: number | undefined;
  on?(event: "error", listener: (error: Error) => void): unknown;
  /** Whether more should wait for "drain". */
  readonly writableNeedDrain?: boolean | undefined;
  once?(event: "drain" | "close", listener: () => void): unknown;
  off?(event: "drain" | "close", listener: () => void): unknown;
}

/** The terminal of a command that draws on the whole screen. */
export interface TerminalControl {
  /** Keys as they are pressed, without echo, until the returned function is called. */
  readKeys(listener: (key: string) => void): () => void;
  /** Bytes as typed; the terminal handles none itself, not even Ctrl-C. */
  readBytes(listener: (data: Uint8Array) => void): () => void;
  onResize(listener: () => void): () => void;
}

export interface CliIo {
  stdout: OutputStream;
  stderr: OutputStream;
  /** Read to its end for `-` arguments. On a terminal, print what is expected before reading. */
  stdin: AsyncIterable<Uint8Array | string> & { isTTY?: boolean | undefined };
  env: Readonly<Record<string, string | undefined>>;
  /** Ends a running command, such as --watch. */
  signal: AbortSignal;
  /** Absent where there is no terminal to control. */
  terminal?: TerminalControl;
}

export function processIo(signal: AbortSignal): CliIo {
  const { stdout, stderr, stdin, env } = process;
  return { stdout, stderr, stdin, env, signal, terminal: { readKeys, readBytes, onResize } };
}

function readKeys(listener: (key: string) => void): () => void {
  const { stdin } = process;
  // `coral top < file`: stdin is not the keyboard.
  if (!stdin.isTTY) return () => undefined;
  const onData = (data: Buffer): void => listener(data.toString("utf8"));
  stdin.setRawMode(true);
  stdin.on("data", onData).resume();
  return () => {
    stdin.off("data", onData).pause();
    stdin.setRawMode(false);
  };
}

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
 * Node's raw mode still turns each line feed into carriage return and line feed, but programs that draw use a line feed to move down only. Leaving raw
 * mode restores the setting.
 */
function keepLineFeeds(): void {
  // Without stty, as in some containers, screens may look wrong; everything else works.
  process.getBuiltinModule("node:child_process").spawnSync("stty", ["-opost"], { stdio: ["inherit", "ignore", "ignore"] });
}

function onResize(listener: () => void): () => void {
  process.stdout.on("resize", listener);
  return () => process.stdout.off("resize", listener);
}
