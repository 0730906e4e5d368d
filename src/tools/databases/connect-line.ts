import { shellWord } from "../../base/escape-text.ts";

/**
 * The command that gives the agent an account for a database. The port identifies the service. The name drops the suffix that
 * distinguishes namesakes, because `coral connect` accepts neither `postgres:5432` nor `postgres (billing)` as a name.
 */
export function connectLine(service: string, seenPort?: number): string {
  const [, labelName = service, labelPort] = /^(.+?)(?::(\d{1,5})| \(.*\))?$/.exec(service) ?? [];
  const name = labelName
    .replace(/[^\w.-]+/g, "-")
    .slice(0, 63)
    .replace(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, "");
  const port = labelPort ?? (seenPort === undefined ? "<port>" : String(seenPort));
  return `coral connect ${shellWord(name === "" ? "database" : name)}:${port} --credentials-file <path>`;
}
