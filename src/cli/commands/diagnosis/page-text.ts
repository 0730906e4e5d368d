/** Fits lines of a page to the terminal. */

import { escapeText } from "../../../base/escape-text.ts";
import type { Printer } from "../../output/printer.ts";
import { textWidth, truncateText } from "../../output/text-width.ts";

/** Width when the output is not a terminal. */
export const pageWidth = 80;

export function cut(text: string, print: Printer): string {
  return truncateText(escapeText(text), print.width ?? pageWidth);
}

/** Wraps between words and indents continuation lines. */
export function wrapped(text: string, print: Printer, indent = ""): string {
  const width = print.width ?? pageWidth;
  const words = escapeText(text).trimStart().split(" ");
  const lines = [" ".repeat(text.length - text.trimStart().length)];
  for (const word of words) {
    const line = lines.at(-1) ?? "";
    const isEmpty = line.trim() === "";
    if (!isEmpty && textWidth(line) + 1 + textWidth(word) > width) lines.push(`${indent}${word}`);
    else lines[lines.length - 1] = isEmpty ? `${line}${word}` : `${line} ${word}`;
  }
  return lines.join("\n");
}

/** A statement with its evidence id at the end of the line. */
export function evidenceLine(id: string, statement: string, print: Printer): string {
  const width = (print.width ?? pageWidth) - textWidth(id) - 5;
  return `  ${truncateText(escapeText(statement), width)}  ${print.style("dim", id)}`;
}

/** Lines that the strongest statement may take. */
const wholeLines = 3;

/** The whole statement over several lines, and the id that opens it. */
export function wholeEvidence(id: string, statement: string, print: Printer): string {
  const width = print.width ?? pageWidth;
  // Lines break between words: some of each stays empty.
  const text = wrapped(`  ${truncateText(statement, wholeLines * (width - 12) - id.length)}  ${id}`, print, "  ");
  return `${text.slice(0, -id.length)}${print.style("dim", id)}`;
}

/** Commands are never truncated, because people copy them. */
export function nextLine(command: string, print: Printer): string {
  return `next: ${escapeText(print.commands(command))}`;
}
