/** `host:port` as users write it: `127.0.0.1:9000`, `[::1]:9000`, `:9000` and `9000` (loopback). */

import { CoralError } from "../../base/errors.ts";

export interface ListenAddress {
  /** Without brackets. */
  host: string;
  /** 0 picks a free port. */
  port: number;
}

const loopback = "127.0.0.1";

export function parseListenAddress(text: string): ListenAddress {
  const trimmed = text.trim();
  const match = /^(?:\[([0-9a-fA-F:.%a-z]+)\]:|([^\s:/[\]]*):)?(\d{1,5})$/.exec(trimmed);
  const port = Number(match?.[3]);
  if (!match || port > 65_535) {
    throw new CoralError({
      code: "invalid",
      message: `Cannot read address "${text}": write host:port with a port of 0 to 65535, such as 127.0.0.1:9000, [::1]:9000 or 9000`,
    });
  }
  return { host: match[1] ?? (match[2] || loopback), port };
}

/** A flag with only a port changes the port and keeps the configured host. */
export function withListenFlag(configured: ListenAddress, flag: string | undefined): ListenAddress {
  return flag !== undefined && /^\d+$/.test(flag.trim()) ? { ...configured, port: parseListenAddress(flag).port } : configured;
}

/** Undefined for a flag that `withListenFlag` applies. */
export function listenOverride(flag: string | undefined): string | undefined {
  return flag !== undefined && /^\d+$/.test(flag.trim()) ? undefined : flag;
}

export function formatListenAddress(address: ListenAddress): string {
  const host = address.host.includes(":") ? `[${address.host}]` : address.host;
  return `${host}:${address.port}`;
}
