import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { protocolHeader, protocolTable, renderProtocolHeader } from "./protocol-header.mjs";
import { mustRun, root } from "./run.mjs";
import { filesBelow, hashOf, listFiles, readStamp, writeStamp } from "./stamps.mjs";

const stamp = "build/stamps/generated-code";
const generated = "src/proto/coral";

function stateHash() {
  return hashOf([
    ...filesBelow("proto"),
    ...filesBelow(generated),
    ...[protocolTable, protocolHeader].filter((file) => existsSync(join(root, file))),
    "buf.gen.yaml",
    "buf.yaml",
    "package-lock.json",
    "scripts/lib/protocol-header.mjs",
  ]);
}

/** @returns {boolean} whether generated code is known to match its sources */
export function isGeneratedCodeChecked() {
  return readStamp(stamp) === stateHash();
}

/**
 * Generates src/proto from proto/ and the C header from the table of protocols, without network.
 * @param {{ write: boolean }} options write false: only report the difference
 * @returns {Promise<string[]>} files that were out of date
 */
export async function generateCode({ write }) {
  const stale = [...(await generateMessages(write)), ...(await generateHeader(write))];
  if (write || stale.length === 0) writeStamp(stamp, stateHash());
  return stale;
}

/** @param {boolean} write */
async function generateHeader(write) {
  const header = await renderProtocolHeader();
  if (read(join(root, protocolHeader)) === header) return [];
  if (write) writeFileSync(join(root, protocolHeader), header);
  return [protocolHeader];
}

/** @param {boolean} write */
async function generateMessages(write) {
  const directory = mkdtempSync(join(tmpdir(), "coral-proto-"));
  try {
    // buf looks up its plugins in PATH, which contains node_modules/.bin only under npm.
    const env = { PATH: [join(root, "node_modules/.bin"), process.env["PATH"] ?? ""].join(delimiter) };
    await mustRun(
      join(root, "node_modules/.bin/buf"),
      ["generate", "--output", directory],
      "Cannot generate code from proto/; fix the errors above",
      { env },
    );
    const made = join(directory, "src/proto");
    const names = new Set([...listFiles(made), ...listFiles(join(root, generated)).map((file) => join("coral", file))]);
    const stale = [...names].filter((name) => read(join(made, name)) !== read(join(root, "src/proto", name)));
    if (write && stale.length > 0) {
      rmSync(join(root, generated), { recursive: true, force: true });
      cpSync(join(made, "coral"), join(root, generated), { recursive: true });
    }
    return stale.map((name) => `src/proto/${name}`);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** @param {string} path @returns {string | undefined} */
function read(path) {
  return existsSync(path) ? readFileSync(path, "utf8") : undefined;
}
