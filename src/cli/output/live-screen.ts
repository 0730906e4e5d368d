/** Draws on the alternate screen and restores the terminal however the program ends. */

import type { CliIo } from "./cli-io.ts";
import { textWidth } from "./text-width.ts";

/** DECSET 1049 saves the cursor and switches to the alternate screen; 25 is cursor visibility. */
const enter = "\u001b[?1049h\u001b[?25l";
const leave = "\u001b[?25h\u001b[?1049l";
const home = "\u001b[H";
/** EL and ED: erase to the end of the line, and below. Drawing over old lines flickers less than clearing first. */
const clearLine = "\u001b[K";
const clearBelow = "\u001b[J";
/** SGR sequences. The capture group makes split() keep them. */
const colour = new RegExp(`(${String.fromCodePoint(27)}\\[[0-9;]*m)`, "u");
/** SGR reset, for a truncated line. */
const plain = "\u001b[0m";

export interface LiveScreenOptions {
  onKey: (key: string) => void;
  onResize: () => void;
  /** Called on a terminating signal; the owner disposes of the screen. */
  onEnd: (signal: NodeJS.Signals) => void;
}

/** Their default action would end the process without restoring the terminal. SIGINT arrives as a key in raw mode, but also from kill(1). */
const endSignals: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];

/** Owns the terminal while it is open. Anything else written meanwhile would be overdrawn or lost with the alternate screen. */
export class LiveScreen implements Disposable {
  readonly #io: CliIo;
  readonly #releases: (() => void)[] = [];
  #isOpen = true;
  readonly #restore = (): void => {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    for (const release of this.#releases) release();
    this.#io.stdout.write(leave);
  };

  constructor(io: CliIo, { onKey, onResize, onEnd }: LiveScreenOptions) {
    this.#io = io;
    io.stdout.write(enter);
    if (io.terminal) this.#releases.push(io.terminal.readKeys(onKey), io.terminal.onResize(onResize));
    for (const name of endSignals) {
      const listener = (): void => onEnd(name);
      process.on(name, listener);
      this.#releases.push(() => process.removeListener(name, listener));
    }
    // Restores the terminal even after an uncaught error.
    process.once("exit", this.#restore);
    this.#releases.push(() => process.removeListener("exit", this.#restore));
  }

  get rows(): number {
    return Math.max(3, this.#io.stdout.rows || 24);
  }

  get columns(): number {
    return Math.max(20, this.#io.stdout.columns || 80);
  }

  /** Draws lines above `foot`, which stays at the bottom; drops lines that do not fit. */
  draw(lines: readonly string[], foot: string): void {
    if (!this.#isOpen) return;
    const shown = lines.slice(0, this.rows - 1);
    while (shown.length < this.rows - 1) shown.push("");
    // Raw mode: LF alone would not return to the first column.
    const text = [...shown, foot].map((line) => `${cutStyled(line, this.columns)}${clearLine}`).join("\r\n");
    this.#io.stdout.write(`${home}${text}${clearBelow}`);
  }

  [Symbol.dispose](): void {
    this.#restore();
  }
}

/** Truncates a styled line to `width` cells: a wrapped line would push the others down. */
export function cutStyled(line: string, width: number): string {
  const parts = line.split(colour);
  let left = width;
  let cut = "";
  for (const [index, part] of parts.entries()) {
    if (index % 2 === 1) {
      cut += part;
      continue;
    }
    if (textWidth(part) <= left) {
      cut += part;
      left -= textWidth(part);
      continue;
    }
    for (const character of part) {
      const next = textWidth(character);
      if (next > left) return `${cut}${plain}`;
      cut += character;
      left -= next;
    }
  }
  return cut;
}
