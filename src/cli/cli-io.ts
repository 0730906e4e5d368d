/** The streams and surroundings of a command; injectable, so that tests see what a user sees. */

export interface OutputStream {
  write(text: string): unknown;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
  on?(event: "error", listener: (error: Error) => void): unknown;
}

export interface CliIo {
  stdout: OutputStream;
  stderr: OutputStream;
  /** Whole content; for `-` arguments. Must not be called on a terminal without telling the user. */
  stdin: AsyncIterable<Uint8Array | string> & { isTTY?: boolean | undefined };
  env: Readonly<Record<string, string | undefined>>;
  /** Ends a running command, such as --watch. */
  signal: AbortSignal;
}

export function processIo(signal: AbortSignal): CliIo {
  return { stdout: process.stdout, stderr: process.stderr, stdin: process.stdin, env: process.env, signal };
}
