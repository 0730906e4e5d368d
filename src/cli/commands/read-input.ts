import { CoralError } from "../../base/errors.ts";
import type { Invocation } from "../run/invocation.ts";

const maxInputBytes = 16 * 1024 * 1024;

/** Returns `given`, or all of stdin when it is absent or `-`. */
export function textOrStdin(invocation: Invocation, given: string | undefined, what: string): Promise<string> {
  return given === undefined || given === "-" ? readInput(invocation, what) : Promise.resolve(given);
}

/** Reads all of stdin as text. On a terminal, first prints what it waits for. */
export async function readInput(invocation: Invocation, what: string): Promise<string> {
  const { io, print } = invocation;
  if (io.stdin.isTTY) print.note(`reading ${what} from the terminal; end with Ctrl-D`);
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of io.stdin) {
    text += typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true });
    if (text.length > maxInputBytes) {
      throw new CoralError({ code: "usage", message: `Cannot read ${what} from stdin: it has more than ${maxInputBytes} bytes` });
    }
  }
  return text + decoder.decode();
}
