/** Lines of a page that fit the terminal. */

import { escapeText } from "../../../base/escape-text.ts";
import type { Printer } from "../../output/printer.ts";
import { textWidth, truncateText } from "../../output/text-width.ts";

/** Where the width of the terminal is unknown. */
export const pageWidth = 80;

export function cut(text: string, print: Printer): string {
  return truncateText(escapeText(text), print.width ?? pageWidth);
}

/** Broken between words; further lines are indented. */
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

/** A statement, and the id that opens it, at the end of the line. */
export function evidenceLine(id: string, statement: string, print: Printer): string {
  const width = (print.width ?? pageWidth) - textWidth(id) - 5;
  return `  ${truncateText(escapeText(statement), width)}  ${print.style("dim", id)}`;
}

/** Never cut: a command is copied as it stands. */
export function nextLine(command: string, print: Printer): string {
  return `next: ${escapeText(print.commands(command))}`;
}
