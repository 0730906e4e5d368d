/** Small TLS servers and clients. Each runs as a process; sources are written to a temporary directory. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { buildGo } from "./build-go.ts";
import { freePort } from "./held-port.ts";
import { tlsRecordsSource } from "./tls-records-program.ts";
import { waitFor } from "./wait-for.ts";

const sources: Readonly<Record<string, string>> = {
  "records.c": tlsRecordsSource,
  "nginx.conf": `worker_processes 1; daemon off; pid DIRECTORY/nginx.pid; error_log DIRECTORY/nginx.log;
events { worker_connections 512; }
http {
  access_log off; client_body_temp_path DIRECTORY/body; proxy_temp_path DIRECTORY/proxy; fastcgi_temp_path DIRECTORY/fastcgi;
  uwsgi_temp_path DIRECTORY/uwsgi; scgi_temp_path DIRECTORY/scgi; keepalive_requests 1000000;
  server {
    listen 127.0.0.1:PORT ssl; ssl_certificate DIRECTORY/cert.pem; ssl_certificate_key DIRECTORY/key.pem;
    location / { return 200 "hello\\n"; }
    location /missing { return 404; }
    location /large { root DIRECTORY; }
  }
}
`,
  "server.py": `import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = b"hello\\n"
        self.send_response(404 if self.path.startswith("/missing") else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2] + "/cert.pem", sys.argv[2] + "/key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
`,
  "client.py": `import http.client, ssl, sys
connection = http.client.HTTPSConnection("127.0.0.1", int(sys.argv[1]), context=ssl._create_unverified_context())
for line in sys.stdin:
    path, count = line.split()
    for number in range(int(count)):
        connection.request("GET", path)
        connection.getresponse().read()
    print("done", flush=True)
`,
  "server.mjs": `import { readFileSync } from "node:fs";
import { createSecureServer } from "node:http2";
import { createServer } from "node:https";
const [port, directory, kind] = process.argv.slice(2);
const options = { key: readFileSync(directory + "/key.pem"), cert: readFileSync(directory + "/cert.pem") };
const answer = (request, response) => {
  response.statusCode = request.url.startsWith("/missing") ? 404 : 200;
  const end = () => response.end("hello\\n");
  if (request.url.startsWith("/close-later")) setTimeout(() => request.socket.end(), 4000);
  if (request.url.startsWith("/late")) setTimeout(end, 50);
  else end();
};
(kind === "http2" ? createSecureServer(options, answer) : createServer(options, answer)).listen(Number(port), "127.0.0.1");
`,
  "client.mjs": `import { connect } from "node:http2";
import { Agent, get } from "node:https";
import { createInterface } from "node:readline";
const [port, kind] = process.argv.slice(2);
const cbc = kind === "cbc" ? { maxVersion: "TLSv1.2", ciphers: "ECDHE-ECDSA-AES256-SHA384" } : {};
const agent = new Agent({ keepAlive: kind !== "close", maxSockets: 1, rejectUnauthorized: false, ...cbc });
const session = kind === "http2" ? connect("https://127.0.0.1:" + port, { rejectUnauthorized: false }) : undefined;
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
const fetchAtOnce = (path) => Promise.all(port.split(",").flatMap((port, index) =>
  Array.from({ length: 8 }, async () => (await fetch("https://127.0.0.1:" + port + path + "abc"[index])).text())));
const ask = (path) => kind === "fetch" ? fetchAtOnce(path) : new Promise((resolve, reject) => {
  if (session) session.request({ ":path": path }).on("error", reject).on("close", resolve).resume().end();
  else get({ agent, host: "127.0.0.1", port: Number(port), path }, (response) => {
    response.resume();
    (kind === "cbc" ? response.socket.on("close", resolve) : response.on("end", resolve));
  }).on("error", reject);
});
for await (const line of createInterface({ input: process.stdin })) {
  const [path, count] = line.split(" ");
  for (let number = 0; number < Number(count); number++) await ask(path);
  console.log("done");
}
process.exit(0);
`,
  "main.go": `package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	if os.Args[1] == "server" {
		http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/missing") {
				w.WriteHeader(404)
			}
			fmt.Fprintln(w, "hello")
		})
		server := http.Server{Addr: "127.0.0.1:" + os.Args[2]}
		if os.Args[4] == "http1" {
			server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
		}
		panic(server.ListenAndServeTLS(os.Args[3]+"/cert.pem", os.Args[3]+"/key.pem"))
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: os.Args[3] == "http2"}
	client := http.Client{Transport: transport}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var path string
		var count int
		fmt.Sscan(lines.Text(), &path, &count)
		for number := 0; number < count; number++ {
			answer, err := client.Get("https://127.0.0.1:" + os.Args[2] + path)
			if err != nil {
				panic(err)
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
		fmt.Println("done")
	}
}
`,
};

export class TlsPrograms implements Disposable {
  readonly directory = mkdtempSync(join(tmpdir(), "coral-tls-"));
  readonly #children: ChildProcess[] = [];

  constructor() {
    execFileSync(
      "openssl",
      `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ${this.directory}/key.pem -out ${this.directory}/cert.pem -days 30 -subj /CN=localhost`.split(
        " ",
      ),
      { stdio: "ignore" },
    );
    for (const [name, text] of Object.entries(sources)) writeFileSync(join(this.directory, name), text);
  }

  path(name: string): string {
    return join(this.directory, name);
  }

  buildGo(name: string, ...options: string[]): string {
    buildGo(this.directory, ["-o", name, ...options, "main.go"]);
    return this.path(name);
  }

  /** See `tls-records-program.ts`. */
  buildRecords(): string {
    execFileSync("cc", ["-D_GNU_SOURCE", "-o", "records", "records.c", "-lssl", "-lcrypto", "-lpthread"], {
      cwd: this.directory,
      stdio: "pipe",
    });
    return this.path("records");
  }

  start(command: string, args: readonly string[], environment: NodeJS.ProcessEnv = {}): ChildProcess {
    const child = spawn(command, args, {
      cwd: this.directory,
      stdio: ["pipe", "pipe", "inherit"],
      env: { ...process.env, ...environment },
    });
    this.#children.push(child);
    return child;
  }

  /** Starts a server and waits until it completes handshakes. `PORT` in `args` is replaced. */
  async serve(command: string, args: readonly string[], environment: NodeJS.ProcessEnv = {}): Promise<{ pid: number; port: number }> {
    const port = await freePort();
    if (command === "nginx") {
      const config = (sources["nginx.conf"] ?? "").replaceAll("DIRECTORY", this.directory).replaceAll("PORT", String(port));
      writeFileSync(this.path("nginx.conf"), config);
    }
    const child = this.start(
      command,
      args.map((one) => one.replace("PORT", String(port))),
      environment,
    );
    await waitFor(`${command} to serve`, () => canHandshake(port));
    return { pid: child.pid ?? 0, port };
  }

  /** A client that keeps its connection and sends requests on demand. */
  client(command: string, args: readonly string[], environment: NodeJS.ProcessEnv = {}): TlsClient {
    return new TlsClient(this.start(command, args, environment));
  }

  [Symbol.dispose](): void {
    // nginx workers outlive a killed master; SIGTERM ends both.
    for (const child of this.#children) child.kill(child.spawnfile === "nginx" ? "SIGTERM" : "SIGKILL");
    rmSync(this.directory, { recursive: true, force: true });
  }
}

export class TlsClient {
  readonly pid: number;
  readonly #child: ChildProcess;
  #completed = 0;

  constructor(child: ChildProcess) {
    this.#child = child;
    this.pid = child.pid ?? 0;
    child.stdout?.on("data", (text: Buffer) => {
      this.#completed += text.toString().split("done").length - 1;
    });
  }

  async request(path: string, count: number): Promise<void> {
    const before = this.#completed;
    this.#child.stdin?.write(`${path} ${count}\n`);
    // On a busy machine, a client may wait a minute for a processor. A client that exited ends the wait.
    const isOver = (): boolean => this.#completed > before || this.#child.exitCode !== null || this.#child.signalCode !== null;
    await waitFor("the client to be done", isOver, { intervalMs: 5, timeoutMs: 240_000 });
    if (this.#completed <= before)
      throw new Error(`the client exited (${this.#child.signalCode ?? this.#child.exitCode}) before ${path} was done`);
  }

  end(): void {
    this.#child.stdin?.end();
  }
}

/** Whether a handshake succeeds; sends no request. */
function canHandshake(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false }, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
