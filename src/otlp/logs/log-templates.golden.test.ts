/** Golden ids of log patterns: `log.pattern` and `log_pattern.pattern` of stored rows are compared with those of new ones. */

import { expect, it } from "vitest";
import { LogTemplates } from "./log-templates.ts";

const golden = [
  ["GET /users/42 took 12.5ms", "GET <path> took <num>ms", "fe1f56c3f87f"],
  ["connect to 10.0.0.7:5432 failed: größe", "connect to <ip> failed: größe", "317c719f5385"],
] as const;

it.each(golden)("LogTemplates gives %j its golden id", (line, text, id) => {
  expect(new LogTemplates().find("api", line)).toMatchObject({ id, text });
});

it.each(golden)("LogTemplates matches %j to the stored template", (line, text, id) => {
  const templates = new LogTemplates();
  templates.learn("api", text);
  expect(templates.find("api", line)?.id).toBe(id);
});
