/**
 * HTTP requests over loopback as fast as the kernel allows: one thread is client and server, with nothing in between but the four
 * system calls of a request and its response. Load generators and web servers use most of a machine; this uses little, so that
 * 100,000 requests a second fit on two cores.
 */

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const source = `
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char asked[] = "GET /exchange HTTP/1.1\\r\\nHost: bench.test\\r\\n\\r\\n";
static const char answered[] = "HTTP/1.1 204 No Content\\r\\n\\r\\n";

static double seconds_of(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **arguments)
{
	int connections = atoi(arguments[1]), clients[1024], servers[1024], on = 1;
	double seconds = atof(arguments[2]);
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(atoi(arguments[3])) };
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	char buffer[4096];
	long requests = 0;
	if (count < 4 || connections < 1 || connections > 1024) return 2;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(listener, (void *)&address, sizeof address) || listen(listener, 1024)) { perror("listen"); return 1; }
	for (int i = 0; i < connections; i++) {
		clients[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(clients[i], (void *)&address, sizeof address)) { perror("connect"); return 1; }
		servers[i] = accept(listener, 0, 0);
		setsockopt(clients[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		setsockopt(servers[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	}
	double begin = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID), end = begin + seconds;
	do {
		for (int i = 0; i < connections; i++, requests++) {
			if (write(clients[i], asked, sizeof asked - 1) != sizeof asked - 1 || read(servers[i], buffer, sizeof buffer) != sizeof asked - 1) return 3;
			if (write(servers[i], answered, sizeof answered - 1) != sizeof answered - 1 || read(clients[i], buffer, sizeof buffer) != sizeof answered - 1) return 3;
		}
	} while (seconds_of(CLOCK_MONOTONIC) < end);
	printf("%ld %.6f %.6f\\n", requests, seconds_of(CLOCK_MONOTONIC) - begin, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
	return 0;
}
`;

/** One run. */
export interface ExchangeResult {
  requests: number;
  seconds: number;
  /** Of client and server together. */
  cpuSeconds: number;
}

/** A client and a server in one C program, which cost little themselves. */
export interface HttpExchange extends Disposable {
  /** Each run is a separate process with its own port and connections. */
  run(options: { port: number; seconds: number; connections: number }): Promise<ExchangeResult>;
}

/** Null where there is no C compiler. */
export function buildHttpExchange(): HttpExchange | null {
  const compiler = ["/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang"].find((path) => existsSync(path));
  if (compiler === undefined) return null;
  const directory = mkdtempSync(join(tmpdir(), "coral-exchange-"));
  const program = join(directory, "exchange");
  writeFileSync(`${program}.c`, source);
  execFileSync(compiler, ["-O2", "-o", program, `${program}.c`]);
  return {
    run: async ({ port, seconds, connections }) => {
      const child = spawn(program, [String(connections), String(seconds), String(port)], { stdio: ["ignore", "pipe", "inherit"] });
      let text = "";
      child.stdout.on("data", (part: Buffer) => (text += part.toString()));
      const [code] = await once(child, "close");
      const [requests = Number.NaN, took = Number.NaN, cpuSeconds = Number.NaN] = text.trim().split(" ").map(Number);
      if (code !== 0 || Number.isNaN(cpuSeconds)) throw new Error(`The exchange exited with ${code}: ${text}`);
      return { requests, seconds: took, cpuSeconds };
    },
    [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }),
  };
}
