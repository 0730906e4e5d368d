import { describe, expect, it } from "vitest";
import { cpuMsOf } from "../../base/cpu-time.fixture.ts";
import { damagedTexts, seededRandom } from "../../base/damaged-texts.fixture.ts";
import { interpreterOf, scriptNameOf } from "./script-name.ts";
import { type NamedProcess, nameInstance, nameProcess } from "./service-name.ts";

interface Facts extends Partial<Omit<NamedProcess, "workingDirectory">> {
  workingDirectory?: string | null;
}
const facts = (command: string | readonly string[], more: Facts = {}): NamedProcess => {
  const args = typeof command === "string" ? command.split(" ") : command;
  const { workingDirectory = null, ...rest } = more;
  const exe = rest.exe === undefined ? args[0]! : rest.exe;
  const interpreter = interpreterOf(exe ?? rest.processName ?? "");
  const script = interpreter === null ? null : scriptNameOf(interpreter, args, workingDirectory);
  const nothing = { cgroup: null, processName: null, environment: new Map<string, string>(), container: null, kubernetes: null };
  return { ...nothing, arguments: args, ...rest, exe, script, workingDirectory: () => workingDirectory };
};
const at = (workingDirectory: string): Facts => ({ workingDirectory });
const noPatterns = { patterns: [] };
const nameOf = (command: string | readonly string[], more?: Facts): string => {
  const { name, namedBy } = nameInstance({ process: nameProcess(facts(command, more), noPatterns), port: 8080 });
  return `${name} ${namedBy}`;
};

describe("nameProcess()", () => {
  it.each([
    [["ledger", "-p", "80"], "/usr/local/bin/gated", "ledger executable"],
    [["ledger"], "/srv/ledger-1.4.2", "ledger-1.4.2 executable"],
    [["foo"], "/nix/store/x/bin/.foo-wrapped", "foo-wrapped executable"],
    [["-gated"], "/usr/local/bin/gated", "gated executable"],
    [["/opt/ledger"], "/usr/local/bin/gated", "gated executable"],
    [["gated: worker process"], "/usr/local/bin/gated", "gated executable"],
    [["ledger"], "/usr/sbin/nginx", "nginx pattern"],
    [["main"], "/usr/local/bin/gated", "gated executable"],
    [["ledger", "worker.py", "--once"], "/usr/bin/python3.11", "ledger executable"],
    [["ledger", "/srv/app.js"], "/usr/bin/node", "ledger executable"],
    [["python", "worker.py"], "/usr/bin/python3.11", "worker script"],
    [["main", "worker.py"], "/usr/bin/python3.11", "worker script"],
    [["sh", "relay.sh"], "/usr/bin/dash", "relay script"],
  ])("uses a plain argv[0] of %j as the name of %s", (args, exe, expected) => {
    expect(nameOf(args, { exe })).toBe(expected);
  });

  it("uses the package name of a compiled program only if its own name is generic", () => {
    const packageName = (): string => "ledger";
    expect(nameOf("/app/target/release/server", { packageName })).toBe("ledger executable");
    expect(nameOf("/app/target/release/gate", { packageName })).toBe("gate executable");
  });

  it.each([
    [{ container: null, isMainContainer: true }, "shop kubernetes"],
    [{ container: "shop", isMainContainer: true }, "shop kubernetes"],
    [{ container: "cache", isMainContainer: false }, "cache kubernetes"],
  ])("names the containers of one pod: %j", (more, expected) => {
    expect(nameOf("/bin/x", { kubernetes: { app: "shop", workload: "shop", ...more } })).toBe(expected);
  });

  it.each([
    "bob:hunter2@vault",
    "root:hunter2@tcp(h:3306)/db",
    "scott/tiger@//h:1521/X",
    "api token=hunter2",
    "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
  ])("never uses a secret as a name: %j", (secret) => {
    const environment = new Map([["SERVICE_NAME", secret]]);
    expect(nameOf("/srv/shop-api", { environment })).toBe("shop-api executable");
    expect(nameInstance({ process: null, port: 80, traffic: secret }).name).toBe("unknown-80");
    expect(nameOf([secret], { exe: "/usr/bin/node" })).not.toMatch(/hunter2|tiger|sk_live/);
  });

  it.each([
    ["/usr/bin/node /srv/shop/api/server.js", {}, "api script"],
    ["/usr/bin/node /srv/shop/dist/index.js", {}, "shop script"],
    ["/usr/bin/node app.js", at("/srv/checkout"), "checkout script"],
    ["/usr/bin/node payments.js", at("/srv/checkout"), "payments script"],
    ["/usr/bin/node app.js", at("/app"), "app script"],
    ["/usr/bin/node /home/alice/server.js", {}, "server script"],
    ["/usr/bin/node /home/alice/shop/server.js", {}, "shop script"],
    ["/usr/bin/node -r dotenv/config --import ./otel.mjs --max-old-space-size=512 cart.mjs --port 80", {}, "cart script"],
    ["/usr/bin/node /srv/shop/node_modules/.bin/next start", at("/srv/shop"), "shop script"],
    ["/usr/bin/node /srv/shop/node_modules/tsx/dist/cli.mjs watch src/orders.ts", at("/srv/shop"), "orders script"],
    ["/usr/bin/node /usr/lib/node_modules/verdaccio/bin/verdaccio", {}, "verdaccio script"],
    ["/usr/bin/node dist/bundle.js --port 80", at("/srv/shop"), "shop script"],
    ["/usr/bin/node", {}, "node executable"],
    ["/usr/bin/node -e listen()", {}, "node executable"],
    [["node /srv/shop/server.js"], { exe: "/usr/bin/node" }, "shop script"],
    [["shop-api"], { exe: "/usr/bin/node" }, "shop-api script"],
    ["/usr/bin/deno run --allow-net /srv/feed.ts", {}, "feed script"],
    ["/root/.bun/bin/bun run src/index.ts", at("/srv/inbox"), "inbox script"],
  ] as const)("names Node, Deno and Bun programs: %j", (command, more, expected) => {
    expect(nameOf(command as string | string[], more)).toBe(expected);
  });

  it.each([
    ["/usr/bin/python3.11 -m http.server 8000", at("/srv/docs"), "http.server script"],
    ["/usr/bin/python3 -m http.server 8000", at("/"), "http.server script"],
    ["/usr/bin/python3 -m billing.worker", {}, "worker script"],
    ["/usr/bin/python3 -X dev -W ignore /opt/billing/main.py", {}, "billing script"],
    ["/usr/bin/python3 /usr/local/bin/gunicorn -b 0.0.0.0:8000 shop.wsgi:application", {}, "shop script"],
    ["/usr/bin/python3 /usr/local/bin/uvicorn main:app --host 0.0.0.0", at("/srv/search"), "search script"],
    ["/usr/bin/python3 -m flask --app ledger run", {}, "ledger script"],
    ["/usr/bin/python3 manage.py runserver 0.0.0.0:8000", at("/srv/crm"), "crm script"],
    [["gunicorn: master [shop.wsgi:app]"], { exe: "/usr/bin/python3.11" }, "shop script"],
    ["/usr/bin/python3 -c import_x", {}, "python executable"],
    [["puma 6.4.0 (tcp://0.0.0.0:3000) [storefront]"], { exe: "/usr/bin/ruby3.1" }, "storefront script"],
    ["/usr/bin/ruby /usr/local/bin/bundle exec puma -C config/puma.rb", at("/srv/storefront"), "storefront script"],
    ["/usr/bin/php -S 0.0.0.0:8000 -t public", at("/srv/blog"), "blog script"],
    ["/usr/bin/php artisan serve", at("/srv/blog"), "blog script"],
    ["/usr/bin/perl -I /x /opt/gateway.pl", {}, "gateway script"],
    ["/bin/bash -o pipefail /opt/relay.sh", {}, "relay script"],
    ["/usr/sbin/php-fpm8.2 -F", {}, "php-fpm pattern"],
    ["/usr/bin/python3 /usr/local/bin/celery -A shop worker -l info", {}, "shop-worker script"],
    ["/usr/bin/python3 -m celery -A shop beat", {}, "shop-beat script"],
    [["sidekiq 7.1.0 shop [0 of 10 busy]"], { exe: "/usr/bin/ruby3.1" }, "shop-sidekiq script"],
    ["/usr/bin/ruby /usr/local/bin/sidekiq", at("/srv/shop"), "shop-sidekiq script"],
  ] as const)("names Python, Ruby, PHP, Perl and shells: %j", (command, more, expected) => {
    expect(nameOf(command as string | string[], more)).toBe(expected);
  });

  it.each([
    ["/usr/lib/jvm/java-17/bin/java -Xmx1g -javaagent:/x.jar -jar /opt/shop-api-1.4.2-SNAPSHOT.jar --server.port=1", {}, "shop-api script"],
    ["/usr/bin/java -cp /a:/b com.acme.ShopApplication", {}, "ShopApplication script"],
    ["/usr/bin/java -cp /a kafka.Main", {}, "kafka script"],
    ["/usr/bin/java -Xmx1G -cp /opt/kafka/libs/* kafka.Kafka /etc/kafka/server.properties", {}, "kafka script"],
    ["/usr/bin/java -cp x org.apache.zookeeper.server.quorum.QuorumPeerMain z.cfg", {}, "zookeeper script"],
    ["/usr/bin/java -cp x org.elasticsearch.bootstrap.Elasticsearch", {}, "elasticsearch script"],
    ["/usr/bin/java @/opt/args org.apache.catalina.startup.Bootstrap start", {}, "tomcat script"],
    ["/usr/bin/java -cp /app org.springframework.boot.loader.launch.JarLauncher", at("/srv/quotes"), "quotes script"],
    ["/usr/bin/java --module-path mods -m com.acme.mail/com.acme.mail.Main", {}, "mail script"],
    ["/usr/bin/java /srv/Ledger.java --port 1", {}, "Ledger script"],
    ["/usr/bin/dotnet exec /app/Shop.Api.dll", {}, "Shop.Api script"],
  ] as const)("names Java and .NET: %j", (command, more, expected) => {
    expect(nameOf(command as string | string[], more)).toBe(expected);
  });

  it.each([
    ["/usr/lib/postgresql/15/bin/postgres -D /data", {}, "postgres pattern"],
    [["postgres: 15/main: walwriter "], { exe: "/usr/lib/postgresql/15/bin/postgres" }, "postgres pattern"],
    [["postgres: shop shop 10.0.0.1(5000) idle"], { exe: null, processName: "postgres" }, "postgres pattern"],
    ["/usr/bin/redis-server 127.0.0.1:6379", {}, "redis pattern"],
    ["/usr/sbin/mysqld", {}, "mysql pattern"],
    ["/usr/sbin/mariadbd", {}, "mariadb pattern"],
    ["/usr/bin/mongod --config /etc/mongod.conf", {}, "mongodb pattern"],
    [["nginx: worker process"], { exe: "/usr/sbin/nginx" }, "nginx pattern"],
    ["/usr/sbin/apache2 -k start", {}, "apache pattern"],
    ["/usr/local/apache2/bin/httpd -DFOREGROUND", {}, "apache pattern"],
    ["/usr/sbin/haproxy -Ws -f /etc/haproxy/haproxy.cfg", {}, "haproxy pattern"],
    ["/usr/local/bin/envoy -c /etc/envoy.yaml", {}, "envoy pattern"],
    ["/usr/bin/caddy run", {}, "caddy pattern"],
    ["/usr/bin/traefik", {}, "traefik pattern"],
    ["/usr/bin/memcached -m 64", {}, "memcached pattern"],
    ["/usr/local/bin/etcd", {}, "etcd pattern"],
    [["sshd: root@pts/0"], { exe: "/usr/sbin/sshd" }, "sshd pattern"],
    [["sshd-session: root [priv]"], { exe: "/usr/lib/openssh/sshd-session" }, "sshd pattern"],
    ["/usr/lib/erlang/erts-13/bin/beam.smp -W w -- -root /usr/lib/erlang -- -sname rabbit@h -s rabbit boot", {}, "rabbitmq pattern"],
    ["/opt/shop/erts-13/bin/beam.smp -- -name shop@10.0.0.1 -noshell", {}, "shop pattern"],
    ["/tmp/go-build2910/b001/exe/main", at("/home/bob/ledger"), "ledger executable"],
    ["/srv/billing/target/release/billing", {}, "billing executable"],
    ["/usr/bin/prometheus --config.file=x", {}, "prometheus executable"],
    ["/srv/inventory/bin/server", {}, "inventory executable"],
    ["/app/server", {}, "server executable"],
    [["httpd", "-f"], { exe: "/bin/busybox" }, "httpd executable"],
    [["x"], { exe: null, processName: "kubelet" }, "kubelet process-name"],
    [[""], { exe: null }, "unknown-8080 port"],
    [["node", "/srv/shop/server.js"], { exe: null, processName: "node" }, "shop script"],
  ] as const)("names programs: %j", (command, more, expected) => {
    expect(nameOf(command as string | string[], more)).toBe(expected);
  });

  it("prefers the unit, except of supervisors", () => {
    expect(nameOf("/usr/bin/node /srv/shop/server.js", { cgroup: "/system.slice/checkout.service" })).toBe("checkout systemd-unit");
    expect(nameOf("/usr/bin/node /srv/shop/server.js", { cgroup: "/system.slice/supervisor.service" })).toBe("shop script");
  });

  it("prefers Kubernetes, then the environment, the unit, the container, patterns, and the program last", () => {
    const container = { id: "x", runtime: "docker" as const, name: "shop-api-1", service: null, pod: null, labels: {} };
    const all: Facts = {
      kubernetes: { app: "label", workload: "pod" },
      environment: new Map([["OTEL_SERVICE_NAME", "otel"]]),
      cgroup: "/system.slice/unit.service",
      container,
    };
    const steps: [Facts, string, number][] = [
      [all, "label kubernetes", 0.95],
      [{ ...all, kubernetes: { app: null, workload: null } }, "otel environment", 0.92],
      [{ ...all, kubernetes: null, environment: new Map([["SERVICE_NAME", "said"]]) }, "said environment", 0.92],
      [
        { ...all, kubernetes: null, environment: new Map([["OTEL_RESOURCE_ATTRIBUTES", "a=b,service.name=attr"]]) },
        "attr environment",
        0.92,
      ],
      [{ ...all, kubernetes: null, environment: new Map() }, "unit systemd-unit", 0.85],
      [{ container }, "shop-api-1 container", 0.85],
      [{ container: { ...container, service: "api" } }, "api container", 0.85],
      [{ kubernetes: { app: null, workload: "shop" } }, "shop container", 0.85],
      [{}, "nginx pattern", 0.8],
    ];
    for (const [more, expected, confidence] of steps) {
      expect(nameOf("/usr/sbin/nginx", more)).toBe(expected);
      expect(nameProcess(facts("/usr/sbin/nginx", more), noPatterns)?.confidence).toBe(confidence);
    }
    expect(nameProcess(facts("/usr/bin/prometheus"), noPatterns)?.confidence).toBe(0.7);
    expect(nameProcess(facts("/usr/bin/node"), noPatterns)?.confidence).toBe(0.3);
  });

  it("tries configured patterns before built-in ones", () => {
    const rules = {
      patterns: [
        { pattern: /node.*api\.js/, name: "api" },
        { pattern: /^\/usr\/sbin\/(ng\w+)/, name: "my-$1" },
      ],
    };
    expect(nameProcess(facts("/usr/bin/node /srv/api.js"), rules)).toEqual({ name: "api", namedBy: "pattern", confidence: 0.8 });
    expect(nameProcess(facts("/usr/sbin/nginx"), rules)?.name).toBe("my-nginx");
    expect(nameProcess(facts("/usr/sbin/haproxy"), rules)?.name).toBe("haproxy");
  });

  it.each([
    ["/opt/my app/\u001b[31mevil\u001b[0m", "31mevil-0m executable"],
    ["/opt/a\nb\u202ec", "abc executable"],
    [`/opt/${"x".repeat(500)}`, `${"x".repeat(64)} executable`],
    ["/opt/'; DROP TABLE services; --", "DROP-TABLE-services executable"],
    ["/opt/---", "unknown-8080 port"],
    ["/opt/サービス", "サービス executable"],
  ])("sanitizes %j", (exe, expected) => {
    expect(nameOf([exe])).toBe(expected);
  });

  it.each(["[", "/", "a:", "-a.", "node_modules/", "@"])("handles a hostile command line of %j in bounded time", (text) => {
    const long = text.repeat(60_000);
    const cpuMs = cpuMsOf(() => {
      for (const exe of ["/usr/bin/node", "/usr/bin/java", "/usr/bin/python3"]) {
        nameProcess(facts([exe, long, long], at("/srv")), noPatterns);
        nameProcess(facts([long], { exe }), noPatterns);
      }
    });
    // Some milliseconds; a pattern that backtracks over all of it would take minutes.
    expect(cpuMs).toBeLessThan(2_000);
  });

  it("never throws on random input", () => {
    const random = seededRandom(17);
    const texts = [
      "/usr/bin/node",
      "-r",
      "--",
      "app.js",
      "/srv/x/server.js",
      "-m",
      "x:y",
      "[a]",
      "java",
      "-jar",
      "/system.slice/a.service",
      "python3",
      "puma 6 [x]",
    ];
    const words = [...damagedTexts(texts, 18, 400), ...texts];
    const pick = (): string => words[Math.floor(random() * words.length)]!;
    for (let round = 0; round < 2000; round++) {
      const process = nameProcess(
        facts(Array.from({ length: Math.floor(random() * 6) }, pick), {
          cgroup: random() < 0.3 ? pick() : null,
          exe: random() < 0.8 ? pick() : null,
          processName: pick(),
          workingDirectory: random() < 0.5 ? pick() : null,
        }),
        noPatterns,
      );
      const { name } = nameInstance({ process, port: 1 });
      expect(name).toMatch(/^[\p{L}\p{N}._@:+-]{1,64}$/u);
    }
  });
});

describe("nameInstance()", () => {
  const process = { name: "found", namedBy: "script", confidence: 0.8 } as const;

  it("prefers connected names, then configured ones, then the process's", () => {
    expect(nameInstance({ process, port: 1, manual: "said", mapped: "mapped", traffic: "seen" })).toMatchObject({
      name: "said",
      namedBy: "manual",
      confidence: 1,
    });
    expect(nameInstance({ process, port: 1, mapped: "mapped", traffic: "seen" })).toMatchObject({
      name: "mapped",
      namedBy: "config",
      confidence: 1,
    });
    expect(nameInstance({ process, port: 1 })).toBe(process);
  });

  it("uses a name from clients only if there is no other", () => {
    const unsure = { name: "node", namedBy: "process-name", confidence: 0.3 } as const;
    expect(nameInstance({ process, port: 1, traffic: "seen" })).toBe(process);
    expect(nameInstance({ process: unsure, port: 1, traffic: "seen" })).toBe(unsure);
    expect(nameInstance({ process: null, port: 1, traffic: "seen" })).toEqual({ name: "seen", namedBy: "traffic", confidence: 0.2 });
  });

  it("names unknown services by port", () => {
    expect(nameInstance({ process: null, port: 4711 })).toEqual({ name: "unknown-4711", namedBy: "port", confidence: 0 });
    expect(nameInstance({ process: null, port: null, manual: "\u0007" }).name).toBe("unknown");
  });
});
