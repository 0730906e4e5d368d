/** Runs before each test file: raises the default timeout of `vi.waitFor` from one second, which is too short on a busy machine. */

import { vi } from "vitest";

const waitFor = vi.waitFor.bind(vi);
const timeoutMs = 30_000;

vi.waitFor = (callback, options) => waitFor(callback, typeof options === "number" ? options : { timeout: timeoutMs, ...options });
