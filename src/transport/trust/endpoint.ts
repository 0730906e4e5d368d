/** Address of a colony: `host:port`, as in tokens and configs. */

import { CoralError } from "../../base/errors.ts";

/** Host and port of a colony. */
export interface Endpoint {
  /** Without brackets. */
  host: string;
  port: number;
}

/** Throws `invalid`. IPv6 addresses are in brackets. */
export function parseEndpoint(text: string): Endpoint {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/[\]@]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || port < 1 || port > 65_535) {
    throw new CoralError({
      code: "invalid",
      message: `Cannot read endpoint "${text}": write host:port, such as 127.0.0.1:9000 or [::1]:9000`,
    });
  }
  return { host, port };
}

/** True for 127.0.0.0/8, ::1 and the former written as IPv6. */
export function isLoopbackAddress(address: string): boolean {
  return /^(?:::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/i.test(address) || address === "::1";
}
