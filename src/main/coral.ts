/** Entry point of the `coral` command. */

import { runCli } from "../cli/index.ts";
import { createRuntime } from "./runtime.ts";

process.exitCode = await runCli(process.argv, createRuntime());
