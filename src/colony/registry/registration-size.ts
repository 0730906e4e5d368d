import { CoralError } from "../../base/errors.ts";
import type { RegisterRequest } from "../../proto/coral/colony/v1/colony_pb.ts";

const maxFactLength = 255;
const maxReasonLength = 4_096;
const maxLabels = 128;
const maxCapabilities = 128;

/** Every agent's facts stay in memory and in each status: throws `invalid` when one is larger than any honest agent's. */
export function checkRegistrationSize({ host, version, epoch, labels, capabilities }: RegisterRequest): void {
  const facts = Object.entries({ ...host, version, epoch }).filter((entry): entry is [string, string] => typeof entry[1] === "string");
  for (const [name, value] of facts) limit(name, value.length, maxFactLength, "characters");
  limit("labels", Object.keys(labels).length, maxLabels, "entries");
  for (const text of Object.entries(labels).flat()) limit("labels", text.length, maxFactLength, "characters");
  limit("capabilities", capabilities.length, maxCapabilities, "entries");
  for (const { name, reason } of capabilities) {
    limit("capabilities", name.length, maxFactLength, "characters");
    limit("capabilities", reason.length, maxReasonLength, "characters");
  }
}

function limit(name: string, size: number, max: number, unit: "characters" | "entries"): void {
  if (size <= max) return;
  throw new CoralError({ code: "invalid", message: `Cannot register: "${name}" has ${size} ${unit}, and ${max} is the limit` });
}
