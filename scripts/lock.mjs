// `npm run lock`: after adding a dependency, adds to the lock file the packages for other platforms that the registry in use did not serve.
import { completeLockFile } from "./lib/lock-file.mjs";
import { say } from "./lib/report.mjs";

const added = completeLockFile();
say(added.length === 0 ? "the lock file was complete" : `added ${added.length} packages for other platforms`);
