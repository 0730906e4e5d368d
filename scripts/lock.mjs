// `npm run lock`: run it after adding a dependency. Adds packages for other platforms to the lock file if the registry in use did not serve them.
import { completeLockFile } from "./lib/lock-file.mjs";
import { say } from "./lib/report.mjs";

const added = completeLockFile();
say(added.length === 0 ? "the lock file is complete" : `added ${added.length} packages for other platforms`);
