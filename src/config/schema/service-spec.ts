/** The argument of `coral connect`: `name:port[:health][:type]`. The CLI parses the text, the agent validates what it receives; both use these rules. */

import { CoralError, type ErrorCode } from "../../base/errors.ts";
import { given } from "../../base/given.ts";

/** A service that a user connects at the agent of its host. */
export interface ServiceSpec {
  name: string;
  port: number;
  /** Path that returns 2xx or 3xx while the service is healthy; without one, an accepted connection is enough. */
  health?: string;
  /** Free word such as `http`, `postgres`; `https` checks over TLS, `udp` is not checked. */
  type?: string;
}

const namePattern = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const typePattern = /^[a-z][a-z0-9+-]{0,31}$/;
const maxHealthBytes = 1_024;
const form = "name:port[:health][:type], such as api:8080:/health:http";

/** `api:8080:/health:http`, `db:5432`, `api:8080::http`. Throws `usage`. */
export function parseServiceSpec(text: string): ServiceSpec {
  const parts = text.split(":");
  const [name = "", port, health = "", type = ""] = parts;
  if (port === undefined) throw problem("usage", text, `it has no port; write ${form}`);
  if (parts.length > 4) throw problem("usage", text, `it has too many parts; write ${form}, and %3A for a colon in the path`);
  if (!/^\d+$/.test(port)) throw problem("usage", text, `"${port}" is not a port; write ${form}`);
  return checkedSpec("usage", text, {
    name,
    port: Number(port),
    ...(health === "" ? {} : { health }),
    ...(type === "" ? {} : { type }),
  });
}

/** Validates an untrusted value. Throws `invalid`. */
export function checkServiceSpec(value: unknown): ServiceSpec {
  const { name, port, health, type } = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const shown = typeof name === "string" ? name : JSON.stringify(name ?? null);
  if (typeof name !== "string") throw problem("invalid", shown, "its name is not a string");
  if (typeof port !== "number") throw problem("invalid", shown, "its port is not a number");
  if (health !== undefined && typeof health !== "string") throw problem("invalid", shown, "its health path is not a string");
  if (type !== undefined && typeof type !== "string") throw problem("invalid", shown, "its type is not a string");
  return checkedSpec("invalid", shown, {
    name,
    port,
    ...given({ health, type }),
  });
}

function checkedSpec(code: ErrorCode, shown: string, spec: ServiceSpec): ServiceSpec {
  const { name, port, health, type } = spec;
  if (!namePattern.test(name)) {
    const advice = "a name has 1 to 63 letters, digits, or one of . _ - between them";
    throw problem(code, shown, name === "" ? `its name is empty; ${advice}` : `"${name}" is not a name; ${advice}`);
  }
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw problem(code, shown, `port ${port} is not between 1 and 65535`);
  if (health !== undefined && !isPath(health))
    throw problem(code, shown, `"${health}" is not a health path; it starts with / and holds neither spaces nor #`);
  if (type !== undefined && !typePattern.test(type))
    throw problem(code, shown, `"${type}" is not a type; write one lower-case word such as http, grpc, postgres, redis`);
  if (type === "udp" && health !== undefined) throw problem(code, shown, "a health path needs HTTP, and its type is udp");
  return spec;
}

function isPath(text: string): boolean {
  // Printable ASCII only: it becomes the first line of a request.
  return /^\/[\x21\x22\x24-\x7e]*$/.test(text) && text.length <= maxHealthBytes;
}

function problem(code: ErrorCode, shown: string, why: string): CoralError {
  return new CoralError({ code, message: `Cannot connect service "${shown}": ${why}` });
}
