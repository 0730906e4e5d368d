import { colonyTools } from "../tools/index.ts";

/**
 * Renders src/cli/run/tool-inputs.ts, the input fields of every tool as plain data. The CLI derives options and help from it, so that
 * it starts without the tools and their schema library.
 */
export function renderToolInputs(): string {
  const tools = colonyTools.map(({ name, inputFields }) => {
    const fields = Object.entries(inputFields).map(([field, spec]) => `    ${field}: ${objectText(spec)},\n`);
    return fields.length === 0 ? `  ${name}: {},\n` : `  ${name}: {\n${fields.join("")}  },\n`;
  });
  const lines = [
    "/** The input fields of every tool. Generated from src/tools by `npm run docs`; do not edit. */",
    "",
    'import type { InputField } from "../../tools/index.ts";',
    "",
    "export const toolInputs = {",
    `${tools.join("")}} as const satisfies Record<string, Record<string, InputField>>;`,
  ];
  return `${lines.join("\n")}\n`;
}

function objectText(spec: object): string {
  return `{ ${Object.entries(spec)
    .map(([key, value]) => `${key}: ${JSON.stringify(value)}`)
    .join(", ")} }`;
}
