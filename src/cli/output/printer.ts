import type { CliIo } from "./cli-io.ts";
import { colourStyle, plainStyle, type Style, wantsColour } from "./style.ts";

/** Writes answers to stdout, everything else to stderr. */
export class Printer {
  /** For stdout. */
  readonly style: Style;
  /** For stderr. */
  readonly noteStyle: Style;
  readonly isTerminal: boolean;
  /** Rewrites `coral …` in a text so that the command works when pasted, with path and CORAL_HOME. Notes are always rewritten. */
  readonly commands: (text: string) => string;
  readonly #io: CliIo;
  readonly #quiet: boolean;

  constructor(io: CliIo, options: { quiet: boolean; noColour: boolean; commands: (text: string) => string }) {
    this.#io = io;
    this.commands = options.commands;
    this.#quiet = options.quiet;
    this.isTerminal = io.stdout.isTTY === true;
    this.style = wantsColour(io.stdout, io.env, options.noColour) ? colourStyle : plainStyle;
    this.noteStyle = wantsColour(io.stderr, io.env, options.noColour) ? colourStyle : plainStyle;
  }

  /** Terminal width in cells; undefined for other outputs, which are never truncated. */
  get width(): number | undefined {
    // A terminal without a known size reports 0.
    // Below 40 cells tables are unreadable anyway, so let the terminal wrap.
    return this.isTerminal ? Math.max(40, this.#io.stdout.columns || 80) : undefined;
  }

  /** Writes the answer, unchanged. */
  answer(text: string): void {
    if (text !== "") this.#io.stdout.write(text);
  }

  /** Prints outcomes and hints on stderr; not with -q. */
  note(text: string): void {
    if (!this.#quiet) this.#io.stderr.write(`${this.commands(text)}\n`);
  }

  /** Prints warnings and completeness notes on stderr; not with -q. */
  warning(text: string): void {
    this.note(`${this.noteStyle("yellow", "note:")} ${text}`);
  }
}
