/** Before each test file: what is waited for takes milliseconds, and a second, which `vi.waitFor` gives it, is too short on a busy machine. */

import { vi } from "vitest";

const waitFor = vi.waitFor.bind(vi);
const timeoutMs = 30_000;

vi.waitFor = (callback, options) => waitFor(callback, typeof options === "number" ? options : { timeout: timeoutMs, ...options });
