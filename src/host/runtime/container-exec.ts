/** A program inside a container, started by the runtime itself: for where its namespaces cannot be entered. */

import { CoralError } from "../../base/errors.ts";
import type { ContainerExec, ContainerExecOptions } from "./container-directory.ts";

export interface ContainerPlace {
  path: string;
  api: "cri" | "docker";
  containerId: string;
}

export async function execInContainer(place: ContainerPlace, options: ContainerExecOptions): Promise<ContainerExec> {
  if (place.api === "docker") {
    const { execByDocker } = await import("./docker-exec.ts");
    return await execByDocker(place, options);
  }
  const { execByCri } = await import("./cri-exec.ts");
  return await execByCri(place, options);
}

/** Refuses before a runtime would with less clear words. */
export function checkArgv(argv: readonly string[]): void {
  if (argv.length > 0 && argv[0] !== "") return;
  throw new CoralError({ code: "usage", message: "Cannot run a program in a container: no program is named" });
}
