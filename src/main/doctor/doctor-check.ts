import { CoralError } from "../../base/errors.ts";
import type { DoctorCheck } from "../../cli/index.ts";

/** Checks that belong together; all groups run at the same time. */
export interface CheckGroup {
  area: DoctorCheck["area"];
  name: string;
  run: (home: string) => Promise<DoctorCheck[]>;
}

/** The line of a group that could not be looked at. */
export function failedCheck({ area, name }: Pick<CheckGroup, "area" | "name">, error: unknown): DoctorCheck {
  return { area, name, state: "unavailable", detail: `cannot be checked: ${CoralError.from(error).message}` };
}
