/** ANSI styles, or plain text when colours are off. */

export type StyleName = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";
export type Style = (name: StyleName, text: string) => string;

/** SGR parameters. `bold` and `dim` share the closing code 22, so they cannot be nested. */
const codes: Record<StyleName, [open: number, close: number]> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
};

export const plainStyle: Style = (_name, text) => text;

export const colourStyle: Style = (name, text) => {
  const [open, close] = codes[name];
  return `\u001b[${open}m${text}\u001b[${close}m`;
};

/** On a terminal unless NO_COLOR, TERM=dumb or --no-color is set; CLICOLOR_FORCE=1 colours pipes too. */
export function wantsColour(
  stream: { isTTY?: boolean | undefined },
  env: Readonly<Record<string, string | undefined>>,
  noColour: boolean,
): boolean {
  // no-color.org: any non-empty value disables colours. It wins over CLICOLOR_FORCE.
  if (noColour || (env["NO_COLOR"] ?? "") !== "") return false;
  const forced = env["CLICOLOR_FORCE"];
  if (forced !== undefined && forced !== "" && forced !== "0") return true;
  return stream.isTTY === true && env["TERM"] !== "dumb";
}
