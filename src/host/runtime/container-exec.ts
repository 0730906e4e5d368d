/** Runs a program inside a container through the runtime, for containers whose namespaces cannot be entered. */

import { CoralError } from "../../base/errors.ts";
import type { ContainerExec, ContainerExecOptions } from "./container-directory.ts";

export interface ContainerTarget {
  path: string;
  api: "cri" | "docker";
  containerId: string;
}

export async function execInContainer(target: ContainerTarget, options: ContainerExecOptions): Promise<ContainerExec> {
  if (target.api === "docker") {
    const { execByDocker } = await import("./docker-exec.ts");
    return await execByDocker(target, options);
  }
  const { execByCri } = await import("./cri-exec.ts");
  return await execByCri(target, options);
}

/** Fails with a clearer message than the runtime's. */
export function checkArgv(argv: readonly string[]): void {
  if (argv.length > 0 && argv[0] !== "") return;
  throw new CoralError({ code: "usage", message: "Cannot run a program in a container: no program given" });
}
