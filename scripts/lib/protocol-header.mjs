import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { root } from "./run.mjs";

/** Where protocols are declared, and the C header with their numbers. */
export const protocolTable = "src/model/protocols.ts";
export const protocolHeader = "probes/protocol/protocols.h";

/**
 * Renders the kernel's numbers of protocols from the table.
 * @returns {Promise<string>}
 */
export async function renderProtocolHeader() {
  const { build } = await import("esbuild");
  const outfile = join(root, "build/protocols.mjs");
  await build({ absWorkingDir: root, entryPoints: [protocolTable], outfile, bundle: true, format: "esm", logLevel: "silent" });
  /** @type {{ trafficProtocols: readonly string[] }} */
  const { trafficProtocols } = await import(`${pathToFileURL(outfile).href}?at=${Date.now()}`);
  const lines = trafficProtocols.map((name, index) => `\tPROTOCOL_${name.toUpperCase()} = ${index + 1},`);
  return `/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Generated from ${protocolTable} by \`npm run generate\`; do not edit. */
#ifndef CORAL_PROTOCOL_PROTOCOLS_H
#define CORAL_PROTOCOL_PROTOCOLS_H

enum protocol {
\tPROTOCOL_UNKNOWN = 0,
${lines.join("\n")}
\t/* An unknown protocol, a process of Coral itself, or a connection whose requests are over: hooks return after one lookup. */
\tPROTOCOL_IGNORED = 255,
};

#endif
`;
}
