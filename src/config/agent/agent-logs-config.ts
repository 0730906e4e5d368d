/** The `logs` list of the agent's config: which services' log files and journal units are read. Unlisted logs are never read. */

import * as z from "zod";
import { text } from "../schema/schema-parts.ts";

const absolutePath = text("Path of a log file; * matches anything but a slash", {
  expression: /^\/[^\0]*[^/]$/,
  message: "write an absolute path, such as /var/log/api/*.log",
});
const unitName = text("A systemd unit", { expression: /^[A-Za-z0-9][\w@:.\\-]{0,254}$/, message: "write a unit, such as api.service" });

export const agentLogsList = z
  .array(
    z
      .strictObject({
        service: text("The service that the lines are attributed to").max(255, "it must have at most 255 characters"),
        files: z.array(absolutePath).max(50, "write at most 50 paths").prefault([]),
        units: z.array(unitName).max(50, "write at most 50 units").prefault([]),
        from_start: z.boolean({ error: "write true or false" }).prefault(false),
      })
      .refine(({ files, units }) => files.length + units.length > 0, "list files or units"),
  )
  .max(200, "write at most 200 services")
  .meta({
    kind: "list",
    description:
      "Logs to read, each with `service`, `files` (absolute paths, * matches anything but a slash), `units` (systemd units, read from the journal) and `from_start` (also read existing lines; default false)",
  })
  .prefault([]);

export interface ServiceLogsConfig {
  service: string;
  files: readonly string[];
  units: readonly string[];
  fromStart: boolean;
}

export function toServiceLogs(file: z.output<typeof agentLogsList>): ServiceLogsConfig[] {
  return file.map(({ service, files, units, from_start: fromStart }) => ({ service, files, units, fromStart }));
}
