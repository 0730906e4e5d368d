import type { Socket } from "node:net";

/** The descriptor behind a socket; undefined once it is closed. Node has it, but gives no public way to it. */
export function fdOf(socket: Socket): number | undefined {
  const { _handle: handle } = socket as unknown as { _handle?: { fd?: unknown } | null };
  return typeof handle?.fd === "number" && handle.fd >= 0 ? handle.fd : undefined;
}
