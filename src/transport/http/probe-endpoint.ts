/** Checks a port of this machine once: does it accept a connection, and does its health path return a good status. Never contacts other machines. */

import { type ClientRequest, type RequestOptions, request as requestHttp } from "node:http";
import { connect, isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { CoralError } from "../../base/errors.ts";
import { isLoopbackAddress } from "../trust/endpoint.ts";

/** One check. Redirects are not followed. */
export interface ProbeRequest {
  /** An address of this machine; others are refused. */
  address: string;
  port: number;
  /** Path to GET; without it, an accepted connection is enough. */
  http?: { path: string; tls: boolean } | undefined;
  /** For connect and response together. */
  timeoutMs: number;
  signal: AbortSignal;
  /** Further addresses of this machine, such as those of its containers. */
  ownAddresses?: readonly string[];
}

export type ProbeOutcome =
  | { kind: "fine"; detail: string }
  /** `refused`: nothing listens on this address; another address of the machine may work. */
  | { kind: "failed"; reason: "refused" | "timeout" | "status" | "broken"; detail: string };

/** Rejects only when aborted, or for an address of another machine; the behaviour of the port is the outcome. */
export async function probeEndpoint(probe: ProbeRequest): Promise<ProbeOutcome> {
  assertOwn(probe);
  probe.signal.throwIfAborted();
  const outcome = probe.http ? await probeHttp(probe, probe.http) : await probeTcp(probe);
  probe.signal.throwIfAborted();
  return outcome;
}

function assertOwn({ address, ownAddresses = [] }: ProbeRequest): void {
  if (isIP(address) !== 0) {
    if (isLoopbackAddress(address) || ownAddresses.includes(address)) return;
    const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    if (own.some((item) => item.address === address)) return;
  }
  throw new CoralError({ code: "not-permitted", message: `Cannot check "${address}": it is not an address of this machine` });
}

/** Sends nothing: an accepted connection is enough. */
function probeTcp({ address, port, timeoutMs, signal }: ProbeRequest): Promise<ProbeOutcome> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port });
    const settle = (outcome: ProbeOutcome): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      socket.destroy();
      resolve(outcome);
    };
    const timer = setTimeout(() => settle(timedOut(timeoutMs)), timeoutMs);
    const onAbort = (): void => settle({ kind: "failed", reason: "broken", detail: "cancelled" });
    signal.addEventListener("abort", onAbort, { once: true });
    socket.once("connect", () => settle({ kind: "fine", detail: "connection accepted" }));
    socket.on("error", (error) => settle(failureOf(error)));
  });
}

/** A status from 200 to 399 is good. The body is not read. */
async function probeHttp(probe: ProbeRequest, http: { path: string; tls: boolean }): Promise<ProbeOutcome> {
  const { address, port, timeoutMs, signal } = probe;
  const options = {
    host: address,
    port,
    path: http.path,
    method: "GET",
    agent: false,
    // Servers select a virtual host by this header; the address of this machine is the most likely default.
    headers: { host: `localhost:${port}`, "user-agent": "coral-agent", accept: "*/*", connection: "close" },
  } satisfies RequestOptions;
  const outgoing = await openRequest(options, http.tls);
  return new Promise((resolve) => {
    const settle = (outcome: ProbeOutcome): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      // The body is not needed, and may never end.
      outgoing.destroy();
      resolve(outcome);
    };
    const timer = setTimeout(() => settle(timedOut(timeoutMs)), timeoutMs);
    const onAbort = (): void => settle({ kind: "failed", reason: "broken", detail: "cancelled" });
    signal.addEventListener("abort", onAbort, { once: true });
    outgoing.once("response", (response) => {
      // Aborting the reply emits an error, which must not end the process.
      response.on("error", () => undefined);
      const status = response.statusCode ?? 0;
      const detail = `HTTP ${status}`;
      settle(status >= 200 && status < 400 ? { kind: "fine", detail } : { kind: "failed", reason: "status", detail });
    });
    outgoing.once("upgrade", () => settle({ kind: "failed", reason: "broken", detail: "the reply changes the protocol" }));
    outgoing.on("error", (error) => settle(failureOf(error)));
    outgoing.end();
  });
}

async function openRequest(options: RequestOptions, tls: boolean): Promise<ClientRequest> {
  if (!tls) return requestHttp(options);
  const { request: requestHttps } = await import("node:https");
  // The certificate names the public host, not the loopback address; the probe checks only whether the service responds.
  return requestHttps({ ...options, rejectUnauthorized: false });
}

function timedOut(timeoutMs: number): ProbeOutcome {
  return { kind: "failed", reason: "timeout", detail: `no response within ${timeoutMs} ms` };
}

const refusals: Record<string, string> = {
  ECONNREFUSED: "connection refused",
  EADDRNOTAVAIL: "the address is not available",
  ENETUNREACH: "the address is not reachable",
  EHOSTUNREACH: "the address is not reachable",
};

function failureOf(error: Error): ProbeOutcome {
  const code = "code" in error ? String(error.code) : "";
  const refusal = refusals[code];
  if (refusal !== undefined) return { kind: "failed", reason: "refused", detail: refusal };
  if (code === "ECONNRESET") return { kind: "failed", reason: "broken", detail: "the connection was reset" };
  if (code.startsWith("HPE_")) return { kind: "failed", reason: "broken", detail: "the response is not HTTP" };
  if (code.startsWith("ERR_SSL")) return { kind: "failed", reason: "broken", detail: "the response is not TLS" };
  return { kind: "failed", reason: "broken", detail: code === "" ? "the connection failed" : `the connection failed: ${code}` };
}
