/** Runs before each test file: raises the default timeout of `vi.waitFor` from one second, which is too short on a busy machine. */

import { vi } from "vitest";

const timeoutMs = 30_000;

/** Files of one worker may share `vi`, which must be wrapped only once. */
const shared: typeof vi & { originalWaitFor?: typeof vi.waitFor } = vi;
const waitFor = shared.originalWaitFor ?? vi.waitFor.bind(vi);
shared.originalWaitFor = waitFor;

vi.waitFor = (callback, options) => waitFor(callback, typeof options === "number" ? options : { timeout: timeoutMs, ...options });
