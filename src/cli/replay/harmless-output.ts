/**
 * Passes escape sequences that draw and drops all others: those that make the terminal send a reply (which would arrive as typed
 * input), write the clipboard, set the title or remap keys. A recording contains the output of arbitrary programs, so it is untrusted.
 */

const escape = "\u001b";
/** Maximum length of a buffered sequence; sequences that draw are shorter. */
const maxSequence = 256;
/** Final bytes of CSI sequences that query the terminal, resize its window, or configure keys and mouse reports. */
const refusedFinals = new Set(["c", "n", "t", "y", "q", "i", "x"]);
/** Private modes for mouse, focus and bracketed-paste reports, which would arrive as input. */
const refusedModes = /^\?(?:.*;)?(?:9|1000|1001|1002|1003|1004|1005|1006|1007|1015|1016|2004|2031|2048)(?:;.*)?$/;

/** States of a terminal's parser: inside plain text, after ESC, inside CSI, inside a string (OSC, DCS …), after ESC in a string, in a designation. */
type State = "text" | "escape" | "csi" | "string" | "string-escape" | "charset";

/** Works on characters, not bytes: in UTF-8, bytes 0x80 to 0x9f are parts of characters and no C1 controls. */
export class HarmlessOutput {
  #state: State = "text";
  #sequence = "";

  /** Filters a chunk. A sequence may span several calls. */
  filter(text: string): string {
    let result = "";
    for (const character of text) result += this.#take(character);
    return result;
  }

  #take(character: string): string {
    switch (this.#state) {
      case "text":
        return this.#takeText(character);
      case "escape":
        return this.#takeEscape(character);
      case "csi":
        return this.#takeCsi(character);
      case "charset":
        this.#state = "text";
        return /[!-~]/.test(character) ? this.#sequence + character : this.#takeText(character);
      case "string":
        // BEL, ESC \ and the 8-bit ST terminate a string; CAN and SUB abort it.
        if ("\u0007\u009c\u0018\u001a".includes(character)) this.#state = "text";
        else if (character === escape) this.#state = "string-escape";
        return "";
      case "string-escape":
        this.#state = "text";
        return character === "\\" ? "" : this.#takeEscape(character);
    }
  }

  #takeText(character: string): string {
    if (character === escape) {
      this.#begin("escape", escape);
      return "";
    }
    // C1 CSI, the 8-bit form of ESC [.
    if (character === "\u009b") {
      this.#begin("csi", `${escape}[`);
      return "";
    }
    if (/[\u0090\u0098\u009d\u009e\u009f]/.test(character)) {
      this.#begin("string", "");
      return "";
    }
    // ENQ makes some terminals reply; the 8-bit C1 controls draw nothing.
    return character === "\u0000" || character === "\u0005" || (character >= "\u0080" && character <= "\u009f") ? "" : character;
  }

  #takeEscape(character: string): string {
    if (character === "[") {
      this.#begin("csi", `${escape}[`);
      return "";
    }
    // Drop OSC, DCS, SOS, PM and APC strings: none of them draws text.
    if (/[\]PX^_]/.test(character)) {
      this.#begin("string", "");
      return "";
    }
    // Designations take one more byte: ESC ( 0 selects line drawing, ESC # 8 aligns the screen.
    if (/[()*+\-./#% ]/.test(character)) {
      this.#begin("charset", escape + character);
      return "";
    }
    this.#state = "text";
    // ESC Z queries the terminal type; ESC c resets it.
    return /[78DEHMN=>]/.test(character) ? escape + character : "";
  }

  #takeCsi(character: string): string {
    this.#sequence += character;
    if (!/[ -~]/.test(character) || this.#sequence.length > maxSequence) {
      // Aborted: the following bytes are not part of the sequence.
      this.#state = "text";
      return this.#takeText(character);
    }
    if (!/[@-~]/.test(character)) return "";
    this.#state = "text";
    const parameters = this.#sequence.slice(2, -1);
    // DECSCUSR (cursor shape) also ends in `q`, after a blank, and is harmless.
    if (character === "q" && /^\d* $/.test(parameters)) return this.#sequence;
    if (refusedFinals.has(character)) return "";
    if ((character === "h" || character === "l") && refusedModes.test(parameters)) return "";
    if (/[<=>]/.test(parameters) || (character === "p" && parameters !== "!")) return "";
    return this.#sequence;
  }

  #begin(state: State, sequence: string): void {
    this.#state = state;
    this.#sequence = sequence;
  }
}

/** Resets what an interrupted program may leave behind: colours, a hidden cursor, the alternate screen, mouse reports. */
export const resetTerminal = `${escape}[0m${escape}[?25h${escape}[?1l${escape}[?7h${escape}[r${escape}[?1049l${escape}[?1000l${escape}[?1002l${escape}[?1003l${escape}[?1006l${escape}[?2004l${escape}>${escape}(B`;
