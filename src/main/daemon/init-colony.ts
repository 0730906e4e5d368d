import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";
import type { ColonyInitialised } from "../../cli/index.ts";
import {
  checkSocketPath,
  colonyPaths,
  listLocalColonies,
  makePrivateDirectory,
  readContexts,
  saveContext,
  sudoOwner,
  writePrivateFile,
} from "../../config/index.ts";
import { createAuthority } from "../../transport/index.ts";

const namePattern = /^[a-z0-9](?:[a-z0-9-]{0,28}[a-z0-9])?$/;

/** Creates a colony under CORAL_HOME: its id, authority, config and context. Starts nothing. */
export async function initColony(home: string, { app, environment }: { app: string; environment: string }): Promise<ColonyInitialised> {
  for (const [what, value] of [
    ["application", app],
    ["environment", environment],
  ] as const) {
    if (!namePattern.test(value)) {
      throw new CoralError({
        code: "usage",
        message: `Cannot create a colony: the ${what} "${value}" must be 1 to 30 lower-case letters, digits and dashes, such as "shop" or "prod"`,
      });
    }
  }
  const contextName = `${app}-${environment}`;
  const { contexts } = await readContexts(home);
  const known = contexts.find((context) => context.name === contextName);
  if (known && (await listLocalColonies(home)).includes(known.colonyId)) {
    throw new CoralError({
      code: "already-exists",
      message: `Cannot create colony "${contextName}": it already exists with id ${known.colonyId}; start it with \`coral colony start --colony ${contextName}\``,
      details: { colonyId: known.colonyId },
    });
  }
  const colonyId = `${contextName}-${randomBytes(3).toString("hex")}`;
  const paths = colonyPaths(home, colonyId);
  // Checked first: a colony with too long a path could never start.
  checkSocketPath(paths.socketFile);
  const owner = sudoOwner();
  try {
    await makePrivateDirectory(paths.dataDirectory, owner);
    await makePrivateDirectory(paths.logsDirectory, owner);
    const authority = await createAuthority(paths.caDirectory, colonyId, owner ? { owner } : {});
    await writePrivateFile(paths.configFile, configText(colonyId, app, environment));
    await saveContext(home, { name: contextName, colonyId }, { makeCurrent: true });
    return { colonyId, directory: paths.directory, caFingerprint: authority.fingerprint, contextName };
  } catch (error) {
    // Half a colony would stand in the way of the next try, and of every command that looks for the only colony.
    await rm(paths.directory, { recursive: true, force: true }).catch(() => undefined); // Nothing was made; the reason is in `error`.
    throw error;
  }
}

function configText(colonyId: string, app: string, environment: string): string {
  return `# Colony ${colonyId}. Keys that are not set here have defaults; docs/config.md lists them all.
id: ${colonyId}
name: ${app}
environment: ${environment}
`;
}
