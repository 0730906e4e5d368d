import { describe, expect, it } from "vitest";
import { isServiceId, nameInServiceId } from "../../model/service-identity.ts";
import { ownCodeMark } from "./own-processes.ts";
import { type OriginFixture, originFacts } from "./service-origin.fixture.ts";
import { originAtPort, originOfPort, originOfProcess, originOfRun, type ProcessOrigin } from "./service-origin.ts";

const origin = (command: string | readonly string[], more: OriginFixture = {}): ProcessOrigin =>
  originOfProcess(originFacts(command, more));
const idOf = (command: string | readonly string[], more: OriginFixture = {}): string => origin(command, more).id;
const at = (workingDirectory: string): OriginFixture => ({ workingDirectory });
const container = {
  id: "x",
  runtime: "docker" as const,
  name: "shop-api-1",
  service: null,
  project: null,
  image: null,
  pod: null,
  labels: {},
};

describe("originOfProcess()", () => {
  it("prefers the workload, then the container, the unit, and the program last", () => {
    const kubernetes = { app: "label", workload: "api", namespace: "prod", container: null };
    const all = { kubernetes, container, unit: "api-unit" };
    expect(idOf("/bin/api", all)).toBe("workload:prod/api");
    expect(idOf("/bin/api", { ...all, kubernetes: { ...kubernetes, container: "metrics" } })).toBe("workload:prod/api/metrics");
    expect(idOf("/bin/api", { ...all, kubernetes: null })).toBe("container:shop-api-1");
    expect(idOf("/bin/api", { ...all, kubernetes: null, container: null })).toBe("unit:api-unit");
    expect(idOf("/bin/api", {})).toMatch(/^program:api#[0-9a-f]{12}$/);
  });

  it("identifies containers by Compose project, service and image, not by tag or copy", () => {
    const compose = { ...container, service: "api", project: "shop", image: "acme/api" };
    const one = idOf("/bin/a", { container: compose });
    expect(one).toMatch(/^container:shop\/api#/);
    expect(idOf("/bin/a", { container: { ...compose, name: "shop-api-2" } })).toBe(one);
    expect(idOf("/bin/a", { container: { ...compose, image: "acme/other" } })).not.toBe(one);
    expect(idOf("/bin/a", { container: { ...compose, project: "crm" } })).not.toBe(one);
  });

  it("uses the program in containers without a name, and in system containers", () => {
    expect(idOf("/bin/api", { container: { ...container, name: null } })).toMatch(/^program:api#/);
    expect(idOf("/bin/api", { container: { ...container, runtime: "lxc", name: "box" }, unit: "api" })).toBe("unit:api");
  });

  it.each([
    ["another release directory", ["/opt/api/releases/20240101/api"], ["/opt/api/releases/20240202/api"]],
    ["another version directory", ["/opt/api/v1.2.3/api"], ["/opt/api/v1.3.0/api"]],
    ["another version of a jar", ["/usr/bin/java -jar /opt/api-1.4.2.jar"], ["/usr/lib/jvm/21/bin/java -jar /opt/api-1.5.0.jar"]],
    ["another interpreter", ["/usr/bin/python3.11 a.py", at("/srv/a")], ["/opt/py/bin/python3.12 a.py", at("/srv/a")]],
    ["a release as working directory", ["/usr/bin/node a.js", at("/srv/a/releases/1")], ["/usr/bin/node a.js", at("/srv/a/releases/2")]],
    ["other arguments", ["/usr/bin/node a.js --port 1", at("/srv/a")], ["/usr/bin/node a.js --port 2 -v", at("/srv/a")]],
    ["a relative path", ["/usr/bin/node ./src/a.js", at("/srv/a")], ["/usr/bin/node /srv/a/src/a.js", at("/srv/a")]],
    [
      "a title",
      ["/usr/bin/python3 /x/bin/gunicorn -w 4 shop:app", at("/srv/a")],
      [["gunicorn: master [shop:app]"], { ...at("/srv/a"), exe: "/usr/bin/python3" }],
    ],
    ["its own builds by go run", ["/tmp/go-build12/b001/exe/main", at("/srv/a")], ["/tmp/go-build77/b001/exe/main", at("/srv/a")]],
    [
      "numbers of pipes",
      [["/usr/bin/python3", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(5)"]],
      [["/usr/bin/python3", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(9)"]],
    ],
  ] as [string, [string | string[], OriginFixture?], [string | string[], OriginFixture?]][])("keeps the id with %s", (_, one, other) => {
    expect(idOf(...one)).toBe(idOf(...other));
  });

  it.each([
    ["in another directory", ["/usr/bin/python3 worker.py", at("/srv/billing")], ["/usr/bin/python3 worker.py", at("/srv/images")]],
    ["with another script", ["/usr/bin/node a.js", at("/srv/a")], ["/usr/bin/node b.js", at("/srv/a")]],
    ["with another module", ["/usr/bin/python3 -m a.b", at("/srv/a")], ["/usr/bin/python3 -m a.c", at("/srv/a")]],
    [
      "with another application",
      ["/usr/bin/python3 /usr/bin/gunicorn a:app", at("/s")],
      ["/usr/bin/python3 /usr/bin/gunicorn b:app", at("/s")],
    ],
    ["in another role", ["/usr/bin/python3 -m celery -A shop worker", at("/s")], ["/usr/bin/python3 -m celery -A shop beat", at("/s")]],
    [
      "under another name of exec -a",
      [["ledger", "worker.py"], { ...at("/srv/a"), exe: "/usr/bin/python3" }],
      [["images", "worker.py"], { ...at("/srv/a"), exe: "/usr/bin/python3" }],
    ],
    ["with other code", [["/usr/bin/node", "-e", "listen(1)"]], [["/usr/bin/node", "-e", "listen(2)"]]],
    ["with another configuration", ["/opt/api -c a.yaml", at("/srv")], ["/opt/api -c b.yaml", at("/srv")]],
    [
      "with another name in its environment",
      ["/opt/api", { environment: new Map([["SERVICE_NAME", "a"]]) }],
      ["/opt/api", { environment: new Map([["SERVICE_NAME", "b"]]) }],
    ],
    ["as another applet", [["nc", "-l"], { exe: "/bin/busybox" }], [["httpd"], { exe: "/bin/busybox" }]],
    [
      "in another environment",
      ["/opt/api", { unit: "api" }],
      ["/opt/api", { unit: "api", resource: "service.name=x,deployment.environment=staging" }],
    ],
  ] as [string, [string | string[], OriginFixture?], [string | string[], OriginFixture?]][])(
    "makes another service %s",
    (_, one, other) => {
      expect(idOf(...one)).not.toBe(idOf(...other));
    },
  );

  it("puts the environment into the id, the newer attribute first", () => {
    expect(idOf("/opt/api", { unit: "api", resource: "deployment.environment=old, deployment.environment.name=staging" })).toBe(
      "unit:api@staging",
    );
  });

  it("is the same for all daemons of Coral", () => {
    expect(idOf("node /opt/coral/bin/coral agent start", at("/root"))).toBe("program:coral");
    expect(idOf("node bin/coral colony start", at("/work"))).toBe("program:coral");
  });

  it.each([
    ["/usr/bin/node --optimize-for-size --max-old-space-size=160 /opt/coral/dist/profile-process.js"],
    ["/usr/bin/node --v8-pool-size=1 /opt/coral/dist/traffic-process.js"],
    ["/usr/bin/node --max-semi-space-size=4 /opt/coral/dist/sql-process.js"],
    ["/usr/bin/node /opt/coral/dist/tls-plan-child.js program library"],
    ["/usr/bin/node /opt/coral/dist/ability-child.js"],
    [["/usr/bin/node", "--max-semi-space-size=1", "--v8-pool-size=0", "-e", `${ownCodeMark}\nconst x = 1;`]],
  ])("is the same for Coral's child processes: %j", (command) => {
    expect(idOf(command)).toBe("program:coral");
  });

  it.each([
    ["/usr/bin/node /srv/shop/sql-process.js"],
    ["/usr/bin/node /srv/shop/dist/server.js"],
    [["/usr/bin/node", "-e", "const x = 1;"]],
    [["/usr/bin/python3", "/srv/dist/profile-process.py"]],
  ])("is not Coral's for other programs: %j", (command) => {
    expect(idOf(command)).not.toBe("program:coral");
  });

  it("identifies infrastructure by configuration or data directory", () => {
    const nginx = origin("/usr/sbin/nginx -c /etc/nginx/shop.conf");
    expect(idOf("/opt/nginx/sbin/nginx -g x -c /etc/nginx/shop.conf", at("/elsewhere"))).toBe(nginx.id);
    expect(idOf(["nginx: master process /usr/sbin/nginx -c /etc/nginx/shop.conf"], { exe: "/usr/sbin/nginx" })).toBe(nginx.id);
    expect(originAtPort(nginx, 8080)).toEqual({
      id: nginx.id,
      text: "nginx with /etc/nginx/shop.conf",
      qualifiers: [":8080", "shop", "/etc/nginx/shop.conf"],
    });
    const [old, young] = [14, 15].map((version) =>
      idOf(`/usr/lib/postgresql/${version}/bin/postgres -D /var/lib/postgresql/${version}/main`),
    );
    expect(old).not.toBe(young);
    expect(idOf("/usr/lib/postgresql/16/bin/postgres -D /var/lib/postgresql/14/main")).toBe(old);
  });

  it("identifies other infrastructure by its port", () => {
    const redis = origin(["redis-server *:6379"], { exe: "/usr/bin/redis-server", workingDirectory: "/srv" });
    expect(redis.isIdentifiedByPort).toBe(true);
    const [one, other] = [6379, 6380].map((port) => originAtPort(redis, port));
    expect(one?.id).not.toBe(other?.id);
    expect(one).toMatchObject({ text: "redis on port 6379", qualifiers: [":6379", "/srv"] });
    const elsewhere = origin(["redis-server *:6379"], { exe: "/usr/bin/redis-server", workingDirectory: "/tmp" });
    expect(originAtPort(elsewhere, 6379).id).toBe(one?.id);
    expect(origin("/usr/bin/java -cp x kafka.Kafka /etc/kafka/a.properties")).toMatchObject({
      infrastructure: "kafka",
      isIdentifiedByPort: false,
    });
    expect(origin("/usr/bin/docker-proxy -container-ip 10.0.0.2").infrastructure).toBeNull();
  });

  it("describes the program, with the shortest qualifier first", () => {
    expect(origin("/usr/bin/python3 worker.py", at("/srv/billing"))).toMatchObject({
      text: "python worker.py in /srv/billing",
      qualifiers: ["billing", "/srv/billing", "/srv/billing/worker.py"],
    });
    expect(originAtPort(origin("/opt/api/bin/api"), 80)).toMatchObject({
      text: "/opt/api/bin/api",
      qualifiers: ["api", "/opt/api/bin/api", ":80"],
    });
    expect(originOfRun("job", null)).toEqual({ id: "run:job", text: "coral run job", qualifiers: ["coral run"] });
    expect(originOfPort("web-1", 80)).toMatchObject({ id: "port:web-1/80", qualifiers: [":80", "web-1:80"] });
  });

  it("removes control characters from text and qualifiers", () => {
    const { text, qualifiers } = origin(["/usr/bin/node", "wicked\u001b[31m.mjs"], at("/srv/bad\u0007place"));
    expect([text, ...qualifiers].filter((part) => /\p{Cc}/u.test(part))).toEqual([]);
  });

  it("redacts text and qualifiers", () => {
    const { text, qualifiers } = origin("/usr/bin/python3 worker.py", {
      ...at("/srv/token=abc"),
      redact: (shown) => shown.replaceAll("token=abc", "***"),
    });
    expect([text, ...qualifiers].join(" ")).not.toContain("abc");
  });

  it.each([
    ["", []],
    ["\u0000", ["\u0000"]],
    ["/x/y", ["a".repeat(100_000)]],
    ["/usr/bin/node", []],
    ["/usr/bin/java", ["java", "-jar"]],
    ["/", ["-c", "-c", "-c"]],
  ])("has an id for any command line: %j", (exe, args) => {
    const { id, text } = originOfProcess(originFacts(args, { exe, workingDirectory: null }));
    expect(isServiceId(id)).toBe(true);
    expect(nameInServiceId(id)).not.toBe("");
    expect(id.length + text.length).toBeLessThan(1_000);
  });
});
