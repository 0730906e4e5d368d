import type { CliIo } from "./cli-io.ts";
import { colourStyle, plainStyle, type Style, wantsColour } from "./style.ts";

/** Answers go to stdout, everything else to stderr. */
export class Printer {
  /** For stdout. */
  readonly style: Style;
  /** For stderr. */
  readonly noteStyle: Style;
  readonly isTerminal: boolean;
  /** Rewrites `coral …` in a text to a command that works when pasted here, such as with a CORAL_HOME. Notes are always rewritten. */
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

  /** Cells per line on a terminal; undefined elsewhere: nothing is cut then. */
  get width(): number | undefined {
    // A terminal whose size was never set reports 0.
    return this.isTerminal ? Math.max(40, this.#io.stdout.columns || 80) : undefined;
  }

  /** The answer, as is. */
  answer(text: string): void {
    if (text !== "") this.#io.stdout.write(text);
  }

  /** What happened and what to do next; not with -q. */
  note(text: string): void {
    if (!this.#quiet) this.#io.stderr.write(`${this.commands(text)}\n`);
  }

  /** What is missing or off; not with -q. */
  warning(text: string): void {
    this.note(`${this.noteStyle("yellow", "note:")} ${text}`);
  }
}
