import { describe, expect, it } from "vitest";
import { damagedTexts, seededRandom } from "./host-tree.fixture.ts";
import { nameService, type ProcessFacts } from "./service-name.ts";

const facts = (command: string | string[], more: Partial<ProcessFacts> = {}): ProcessFacts => {
  const args = typeof command === "string" ? command.split(" ") : command;
  return { port: 8080, cgroup: null, exe: args[0]!, processName: null, arguments: args, workingDirectory: null, ...more };
};
const at = (workingDirectory: string): Partial<ProcessFacts> => ({ workingDirectory });
const nameOf = (command: string | string[], more?: Partial<ProcessFacts>): string => {
  const { service, namedBy } = nameService(facts(command, more));
  return `${service} ${namedBy}`;
};

describe("nameService()", () => {
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
  ] as const)("names Node and its kin: %j", (command, more, expected) => {
    expect(nameOf(command as string | string[], more)).toBe(expected);
  });

  it.each([
    ["/usr/bin/python3.11 -m http.server 8000", at("/srv/docs"), "docs script"],
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
    ["/usr/sbin/php-fpm8.2 -F", {}, "php-fpm8.2 executable"],
  ] as const)("names Python, Ruby, PHP, Perl and shells: %j", (command, more, expected) => {
    expect(nameOf(command as string | string[], more)).toBe(expected);
  });

  it.each([
    ["/usr/lib/jvm/java-17/bin/java -Xmx1g -javaagent:/x.jar -jar /opt/shop-api-1.4.2-SNAPSHOT.jar --server.port=1", {}, "shop-api script"],
    ["/usr/bin/java -cp /a:/b com.acme.ShopApplication", {}, "ShopApplication script"],
    ["/usr/bin/java -cp /a kafka.Main", {}, "kafka script"],
    ["/usr/bin/java @/opt/args org.apache.catalina.startup.Bootstrap start", {}, "catalina script"],
    ["/usr/bin/java -cp /app org.springframework.boot.loader.launch.JarLauncher", at("/srv/quotes"), "quotes script"],
    ["/usr/bin/java --module-path mods -m com.acme.mail/com.acme.mail.Main", {}, "mail script"],
    ["/usr/bin/dotnet exec /app/Shop.Api.dll", {}, "Shop.Api script"],
  ] as const)("names Java and .NET: %j", (command, more, expected) => {
    expect(nameOf(command as string | string[], more)).toBe(expected);
  });

  it.each([
    ["/usr/lib/postgresql/15/bin/postgres -D /data", {}, "postgres executable"],
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

  it("tells the container", () => {
    const id = "0123456789abcdef".repeat(4);
    expect(nameService(facts("/app/server", { cgroup: `/docker/${id}` }))).toEqual({
      service: "server",
      namedBy: "executable",
      containerId: "0123456789ab",
    });
  });

  it.each([
    ["/opt/my app/\u001b[31mevil\u001b[0m", "31mevil-0m executable"],
    ["/opt/a\nb\u202ec", "abc executable"],
    [`/opt/${"x".repeat(500)}`, `${"x".repeat(64)} executable`],
    ["/opt/'; DROP TABLE services; --", "DROP-TABLE-services executable"],
    ["/opt/---", "unknown-8080 port"],
    ["/opt/サービス", "サービス executable"],
  ])("makes %j harmless", (exe, expected) => {
    expect(nameOf([exe])).toBe(expected);
  });

  it.each(["[", "/", "a:", "-a.", "node_modules/", "@"])("is quick with a hostile command line of %j", (text) => {
    const long = text.repeat(60_000);
    const startedMs = performance.now();
    for (const exe of ["/usr/bin/node", "/usr/bin/java", "/usr/bin/python3"]) {
      nameService(facts([exe, long, long], at("/srv")));
      nameService(facts([long], { exe }));
    }
    // Some milliseconds; a pattern that backtracks over all of it would take minutes.
    expect(performance.now() - startedMs).toBeLessThan(2_000);
  });

  it("survives anything", () => {
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
      const { service } = nameService({
        port: 1,
        cgroup: random() < 0.3 ? pick() : null,
        exe: random() < 0.8 ? pick() : null,
        processName: pick(),
        arguments: Array.from({ length: Math.floor(random() * 6) }, pick),
        workingDirectory: random() < 0.5 ? pick() : null,
      });
      expect(service).toMatch(/^[\p{L}\p{N}._@:+-]{1,64}$/u);
    }
  });
});
