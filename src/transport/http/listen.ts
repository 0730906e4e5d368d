import type { AddressInfo, Server } from "node:net";
import { CoralError } from "../../base/errors.ts";

/**
 * Listens on `port`, or on one of the `portSearch` ports after it if it is in use. Returns the port. `setting` is what chooses the port: a
 * flag or a key of the config.
 */
export async function listen(server: Server, host: string, port: number, portSearch: number, setting = "--port"): Promise<number> {
  const lastPort = port === 0 ? 0 : Math.min(port + portSearch, 65_535);
  for (let candidate = port; ; candidate++) {
    try {
      await listenOnce(server, host, candidate);
      return (server.address() as AddressInfo).port;
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      if (code === "EADDRINUSE" && candidate < lastPort) continue;
      throw listenError({ host, port, lastPort, setting }, code, error);
    }
  }
}

/** Rejects with the system's error. `backlog` is capped by net.core.somaxconn. */
function listenOnce(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const onListening = (): void => {
      server.off("error", onError);
      resolve();
    };
    // The next port is tried with the same server: its listeners must be removed.
    const onError = (error: Error): void => {
      server.off("listening", onListening);
      reject(error);
    };
    server.once("error", onError);
    server.once("listening", onListening);
    server.listen({ host, port, backlog: 1_024 });
  });
}

interface Wanted {
  host: string;
  port: number;
  lastPort: number;
  setting: string;
}

function listenError({ host, port, lastPort, setting }: Wanted, code: unknown, cause: unknown): CoralError {
  const range = lastPort > port ? `ports ${port} to ${lastPort}` : `port ${port}`;
  const reasons: Record<string, string> = {
    EADDRINUSE: `${range} in use by another program; choose another with ${setting}, or 0 for any`,
    EADDRNOTAVAIL: "the address does not belong to this machine",
    EACCES: "permission denied; ports below 1024 need privileges",
    ENOTFOUND: "the host name is unknown",
  };
  const why = reasons[String(code)] ?? (cause instanceof Error ? cause.message : String(cause));
  return new CoralError({ code: "unavailable", message: `Cannot listen on "${host}:${port}": ${why}`, cause, details: { host, port } });
}
