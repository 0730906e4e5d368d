/** A real terminal running `coral …`. Tests type into it, wait for output and resize it. */

import { type IPty, spawn } from "@lydell/node-pty";
import { coralFile } from "./run-coral.ts";
import { cleanEnvironment } from "./test-home.ts";
import { waitFor } from "./wait-for.ts";

export interface TerminalOptions {
  home: string;
  columns?: number;
  rows?: number;
  /** An sh script to run in the terminal instead; `"$@"` in it is the command. */
  script?: string;
}

export class DrivenTerminal implements Disposable {
  readonly ended: Promise<{ code: number; signal: number }>;
  readonly #pty: IPty;
  #output = "";
  #seen = 0;

  constructor(args: readonly string[], { home, columns = 100, rows = 30, script = 'exec "$@"' }: TerminalOptions) {
    this.#pty = spawn("sh", ["-c", script, "sh", process.execPath, coralFile, ...args], {
      name: "xterm-256color",
      cols: columns,
      rows,
      env: { ...cleanEnvironment(home), TERM: "xterm-256color" },
    });
    this.#pty.onData((text) => {
      this.#output += text;
    });
    this.ended = new Promise((resolve) => {
      this.#pty.onExit(({ exitCode, signal = 0 }) => resolve({ code: exitCode, signal }));
    });
  }

  /** All output so far, including control sequences. */
  get output(): string {
    return this.#output;
  }

  get pid(): number {
    return this.#pty.pid;
  }

  type(keys: string): void {
    this.#pty.write(keys);
  }

  resize(columns: number, rows: number): void {
    this.#pty.resize(columns, rows);
  }

  /** Waits for a match after the previous match and returns the output up to it. */
  async shows(pattern: RegExp): Promise<string> {
    let end = 0;
    await waitFor(
      `the terminal to show ${pattern}`,
      () => {
        const found = pattern.exec(this.#output.slice(this.#seen));
        end = found ? this.#seen + found.index + found[0].length : 0;
        return found !== null;
      },
      { details: () => JSON.stringify(this.#output.slice(-2_000)) },
    );
    const shown = this.#output.slice(this.#seen, end);
    this.#seen = end;
    return shown;
  }

  [Symbol.dispose](): void {
    try {
      this.#pty.kill("SIGKILL");
    } catch {
      // The process has already ended.
    }
  }
}
