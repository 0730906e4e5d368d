import { describe, expect, it } from "vitest";
import { cpuMsOf } from "../base/cpu-time.fixture.ts";
import { damagedTexts, seededRandom } from "../base/damaged-texts.fixture.ts";
import { redactEnvironment } from "./redact-environment.ts";
import { redactCommandLine, redactText } from "./redact-line.ts";

const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U";
const aws = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const base64 = "q7Zx0Jm3VtLk9aYbR2sWcE5uHdN8oPfG1iTqXlMzKvQ=";

/** A command line (a string is split at blanks), what must be gone, what must remain. */
type Case = [command: string | string[], secret: string, kept: string];

const secrets: Case[] = [
  ["app --password hunter2", "hunter2", "app --password ***"],
  ["app --password=hunter2", "hunter2", "app --password=***"],
  ["app -password hunter2", "hunter2", "app -password ***"],
  ["app --db.password=hunter2", "hunter2", "--db.password=***"],
  ["app --dbPassword hunter2", "hunter2", "--dbPassword ***"],
  ["app --DB_PASSWD=hunter2", "hunter2", "--DB_PASSWD=***"],
  ["app --passphrase=correct-horse", "correct-horse", "***"],
  ["app --pwd hunter2", "hunter2", "***"],
  ["app --pass hunter2", "hunter2", "***"],
  ["app --user root --pass=hunter2", "hunter2", "--user root"],
  ["app --secret s3cr3t", "s3cr3t", "***"],
  ["app --client-secret=s3cr3t", "s3cr3t", "***"],
  ["app --secret-id 1234-5678", "1234-5678", "***"],
  ["app --token abc123", "abc123", "***"],
  ["app --api-token=abc123", "abc123", "***"],
  ["app --authToken abc123", "abc123", "***"],
  ["app --api-key abc123", "abc123", "***"],
  ["app --apikey=abc123", "abc123", "***"],
  ["app --key=abc123xyz", "abc123xyz", "***"],
  ["app --license abc-def-123", "abc-def-123", "***"],
  ["app --credentials=u:p", "u:p", "***"],
  ["app --auth bob:swordfish", "swordfish", "***"],
  ["app --dsn sentry-key", "sentry-key", "***"],
  ["app --cookie session=abcd", "abcd", "***"],
  ["app --signing-key=zzz", "zzz", "***"],
  ["app --pin 1234", "1234", "***"],
  ["java -Ddb.password=hunter2 -jar x.jar", "hunter2", "-jar x.jar"],
  ["java -Djavax.net.ssl.keyStorePassword=changeit -cp a Main", "changeit", "-cp a Main"],
  ["java -jar x.jar --spring.datasource.password=hunter2", "hunter2", "x.jar"],
  ["env PGPASSWORD=hunter2 psql", "hunter2", "psql"],
  ["env SECRET_KEY_BASE=abcdef rails s", "abcdef", "rails s"],
  ["mysql -uroot -phunter2 shop", "hunter2", "mysql -uroot -p*** shop"],
  ["/usr/bin/mysqldump --all-databases -phunter2", "hunter2", "--all-databases"],
  ["sshpass -p hunter2 ssh host", "hunter2", "ssh host"],
  ["sshpass -phunter2 ssh host", "hunter2", "ssh host"],
  ["redis-cli -h cache -a hunter2 ping", "hunter2", "-h cache"],
  ["redis-server --requirepass hunter2 --port 6379", "hunter2", "--port 6379"],
  [["redis-server", "requirepass", "hunter2"], "hunter2", "requirepass"],
  ["mongosh -u app -p hunter2 --host db", "hunter2", "--host db"],
  ["ldapsearch -x -w hunter2 -b dc=x", "hunter2", "ldapsearch"],
  ["sqlcmd -S db -U sa -P hunter2", "hunter2", "-S db"],
  ["snmpwalk -v2c -c private1 host", "private1", "host"],
  ["openssl enc -aes-256-cbc -k hunter2", "hunter2", "openssl enc"],
  ["docker login -u bob -p hunter2", "hunter2", "docker login"],
  ["curl -u bob:hunter2 http://x/", "hunter2", "bob:***"],
  ["curl --user bob:hunter2 http://x/", "hunter2", "http://x/"],
  ["wget --http-password=hunter2 http://x/", "hunter2", "http://x/"],
  [["curl", "-H", "Authorization: Bearer abcdef123456", "http://x/"], "abcdef123456", "http://x/"],
  [["curl", "-H", "Authorization: Basic Ym9iOmh1bnRlcjI=", "http://x/"], "Ym9iOmh1bnRlcjI", "Basic"],
  [["curl", "-H", "X-Api-Key: abcdef"], "abcdef", "X-Api-Key"],
  [["curl", "-H", "Cookie: sid=abc; theme=dark"], "sid=abc", "Cookie"],
  [["curl", "-d", '{"user":"bob","password":"hunter2"}'], "hunter2", '"user":"bob"'],
  ["app postgres://shop:hunter2@db:5432/shop", "hunter2", "postgres://***@db:5432/shop"],
  ["app --db=postgres://shop:p@ss/w0rd@db/shop", "p@ss", "@db/shop"],
  ["app amqp://guest:guest1@mq:5672", "guest1", "@mq:5672"],
  ["app redis://:hunter2@cache:6379/0", "hunter2", "redis://***@cache:6379/0"],
  ["git clone https://ghp_0123456789abcdefghijklmnopqrstuvwxyzAB@github.com/a/b", "ghp_0123", "@github.com/a/b"],
  ["app https://x.test/hook?token=abc123&page=2", "abc123", "page=2"],
  [["app", "Server=db;User Id=sa;Password=my long pass;Encrypt=true"], "my long pass", "Server=db"],
  [["app", "host=db user=bob password=hunter2 dbname=x"], "hunter2", "host=db user=bob"],
  ["app DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=Zm9vYmFyYmF6cXV4;EndpointSuffix=x", "Zm9vYmFy", "AccountName=acme"],
  ["app Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=abcd1234=", "abcd1234", "Endpoint=sb"],
  ["app https://acme.blob.core.windows.net/c?sv=2022&sig=abcdEFGH1234%2Bzz%3D", "abcdEFGH1234", "sv=2022"],
  [`app ${jwt}`, "eyJzdWIi", "app ***"],
  ["app AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7", "app ***"],
  [`app --x ${aws}`, "K7MDENG", "--x ***"],
  ["app ghp_0123456789abcdefghijklmnopqrstuvwxyzAB", "ghp_01", "***"],
  ["app github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz", "github_pat_11", "***"],
  ["app glpat-abcdefghij0123456789", "glpat-abc", "***"],
  ["app xoxb-123456789012-abcdefghijkl", "xoxb-1", "***"],
  ["app https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXX", "B00000000", "hooks.slack.com/services/***"],
  ["app sk_live_4eC39HqLyjWDarjtT1zdp7dc", "4eC39", "***"],
  [`app sk-${"ant"}-api03-abcdefghijklmnopqrstuv`, "abcdefghijklmnop", "***"],
  ["app sk-proj-abcdefghijklmnopqrstuvwx", "abcdefghijklmnop", "***"],
  ["app AIzaSyA-1234567890abcdefghijklmnopqrstu", "AIzaSy", "***"],
  ["app SG.abcdefghijklmnopqr.abcdefghijklmnopqrstuvwxyz012", "abcdefghijkl", "***"],
  ["app npm_abcdefghijklmnopqrstuvwxyz0123456789", "npm_abc", "***"],
  ["app hvs.CAESIJlSDSDdssdfsdfSDFdsfsdf1234", "CAESIJ", "***"],
  ["app 123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw_", "AAHdqTcv", "***"],
  ["app $2b$12$KIXQ4S7Gq0Zl5y5xWm0OeO4m5r6t7u8v9w0x1y2z3A4B5C6D7E8F9", "KIXQ4S7", "***"],
  [["app", "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"], "MIIEow", "***"],
  [`app ${base64}`, "q7Zx0Jm3", "app ***"],
  ["app deadbeef0123456789abcdef0123456789abcdef0123456789abcdef01234567", "deadbeef0", "app ***"],
  ["app --seed Xk29fmQpL0", "Xk29fmQpL0", "***"],
  [["sh", "-c", "mysql -uroot -phunter2 -e 'select 1'"], "hunter2", "select 1"],
  [["sh", "-c", "exec app --password hunter2 --port 80"], "hunter2", "--port 80"],
  [["gunicorn: master [--password hunter2]"], "hunter2", "gunicorn"],
  ["helm upgrade x --set image.tag=1,db.password=hunter2", "hunter2", "image.tag=1"],
  ["vault login token=s.abcdefghijklmnopqrstuvwx", "abcdefghij", "vault login"],
  [["app", "--config", 'password: "hunter2"'], "hunter2", "--config"],
  ["app --connection-string=abc;def", "abc", "--connection-string=***"],
  [["curl", "-H", "Authorization: token abcdef"], "abcdef", "Authorization: ***"],
  [["curl", "-H", "Proxy-Authorization: Custom a=1, b=swordfish"], "swordfish", "Proxy-Authorization"],
  [["curl", "-H", "PRIVATE-TOKEN: abcdef"], "abcdef", "PRIVATE-TOKEN"],
  ["aws configure set aws_secret_access_key abcdef", "abcdef", "aws_secret_access_key ***"],
  ["sqlcl jdbc:oracle:thin:scott/tiger@db:1521/x", "tiger", "jdbc:oracle:thin:***@db:1521/x"],
  ["java -Dspring.datasource.url=jdbc:mysql://h/db?user=root&password=hunter2 -jar a.jar", "hunter2", "user=root"],
  ["app mongodb+srv://u:hunter2@cluster0.example.net/db", "hunter2", "@cluster0.example.net/db"],
  ["mount.cifs //h/s /m -o username=u,password=hunter2", "hunter2", "username=u"],
  ["smbclient //h/s -U bob%hunter2", "hunter2", "bob:***"],
  ["docker run -e MYSQL_ROOT_PASSWORD=hunter2 -e TZ=UTC mysql", "hunter2", "TZ=UTC"],
  ["openssl rsa -in key.pem -passin pass:hunter2", "hunter2", "-in key.pem"],
  [["sh", "-c", "export API_TOKEN=abcdef; run --port 80"], "abcdef", "run --port 80"],
];

const innocents: (string | string[])[] = [
  "/usr/sbin/nginx -g daemon off;",
  "nginx: worker process",
  "postgres: 15/main: walwriter",
  "/usr/lib/postgresql/15/bin/postgres -D /var/lib/postgresql/15/main -c config_file=/etc/postgresql/15/main/postgresql.conf",
  "node --max-old-space-size=4096 /srv/shop/dist/server.js --port 8080",
  "python3 -m gunicorn shop.wsgi:application -b 0.0.0.0:8000 --workers 4",
  "uvicorn main:app --host 0.0.0.0 --port 8000 --reload",
  "java -Xmx2g -XX:+UseG1GC -Dserver.port=8080 -jar /opt/shop/shop-api-1.4.2-SNAPSHOT.jar",
  "java -cp /opt/kafka/libs/kafka_2.13-3.6.0.jar kafka.Kafka /etc/kafka/server.properties",
  "redis-server 127.0.0.1:6379",
  "sshd: root@pts/0",
  "/usr/bin/containerd-shim-runc-v2 -namespace moby -id 3f2a9b8c7d6e5f4a3f2a9b8c7d6e5f4a3f2a9b8c7d6e5f4a3f2a9b8c7d6e5f4a -address /run/containerd/containerd.sock",
  "docker run nginx@sha256:3f2a9b8c7d6e5f4a3f2a9b8c7d6e5f4a3f2a9b8c7d6e5f4a3f2a9b8c7d6e5f4a",
  "/usr/local/bin/kube-proxy --config=/var/lib/kube-proxy/config.conf --hostname-override=node-1",
  "app --pod shop-api-7d9f8b6c5-x2x4z --namespace production",
  "app --request-id 550e8400-e29b-41d4-a716-446655440000",
  "app --tls-key /etc/ssl/private/server.key --tls-cert /etc/ssl/server.pem",
  "app --token-file=/run/secrets/token",
  "app --key-file /etc/app/key.json",
  "app --private-key ./id_ed25519.pem",
  "app --token-ttl 15m --auth-type oidc --cookie-name sid",
  "app --max-tokens 4096 --primary-key id --sort-key created_at",
  "app --keyspace orders --author alice --tokenizer gpt2 --compass north --keep-alive 30s",
  "app --auth=true --no-auth-check --secret-name my-secret",
  "curl https://example.com/path/to/page?page=2&sort=asc",
  "ssh -i /home/bob/.ssh/id_rsa bob@host.example.com",
  "app --user 1000:1000 --workdir /srv",
  "mysqld --basedir=/usr --datadir=/var/lib/mysql --user=mysql --pid-file=/run/mysqld/mysqld.pid",
  "mysql -p shop",
  "/usr/lib/x86_64-linux-gnu/libexec/some-daemon2 --bus-name=org.freedesktop.Foo2 --system-activated",
  "/nix/store/abc123/bin/app",
  "celery -A proj worker --loglevel=INFO --concurrency=8 -Q emails,reports",
  "beam.smp -W w -MBas ageffcbf -- -root /usr/lib/erlang -progname erl -- -sname rabbit@host",
  "envoy -c /etc/envoy/envoy.yaml --service-cluster front-proxy --service-node 10.0.0.1",
  "prometheus --storage.tsdb.retention.time=15d --web.listen-address=:9090",
  "app 2001:db8::1 [::1]:8080 10.0.0.0/8",
  "php-fpm: pool www",
  "app --features=TLSBootstrapping=true,IPv6DualStack=false,RotateKubeletServerCertificate=true",
  "com.acme.orders.infrastructure.VeryLongSpringBootApplicationClassName2",
  "app http://localhost:9200/_cluster/health",
  "psql -h db -U app -d shop -c select",
  "kubectl get secrets -n kube-system",
  "ssh-agent -D -a /run/user/1000/ssh-agent.sock",
  "git credential fill",
];

describe("redactCommandLine()", () => {
  it("covers at least 60 kinds of secret and 30 harmless lines", () => {
    expect(secrets.length).toBeGreaterThanOrEqual(60);
    expect(innocents.length).toBeGreaterThanOrEqual(30);
  });

  it.each(secrets)("masks %j", (command, secret, kept) => {
    const args = typeof command === "string" ? command.split(" ") : command;
    const line = redactCommandLine(args);
    expect(line).not.toContain(secret);
    expect(line).toContain("***");
    expect(line).toContain(kept);
  });

  it.each(innocents)("does not change %j", (command) => {
    const args = typeof command === "string" ? command.split(" ") : command;
    expect(redactCommandLine(args)).toBe(args.join(" "));
  });

  it("is idempotent", () => {
    for (const [command] of secrets) {
      const once = redactCommandLine(typeof command === "string" ? command.split(" ") : command);
      expect(redactCommandLine(once.split(" "))).toBe(once);
    }
  });

  it.each(secrets)("masks %j also if the program wrote it into its title", (command, secret) => {
    const title = typeof command === "string" ? command : command.join(" ");
    // Without its quotes, a secret with blanks cannot be distinguished from the words around it.
    const isOneWord = !secret.includes(" ");
    expect(isOneWord && redactCommandLine([title]).includes(secret)).toBe(false);
  });

  it("removes control characters and marks that change the text direction", () => {
    const line = redactCommandLine(["app\u001b[31m", "--name\u0000=x", "a\u202eb", "c\nd", "\u0007", "\ud800"]);
    expect(line).toBe("app --name=x ab c d");
  });

  it("cuts at 4096 characters without cutting a secret in half", () => {
    const long = redactCommandLine(["app", ...Array.from({ length: 4000 }, (_, index) => `word${index}`), "--password", "hunter2"]);
    expect(long.length).toBeLessThanOrEqual(4096);
    expect(long.endsWith("…")).toBe(true);
    const huge = redactCommandLine(["app", `x${base64.repeat(30_000)}`]);
    expect(huge).toBe("app …");
    const border = redactCommandLine(["app", ...Array.from({ length: 200 }, () => `--token ${base64}`)]);
    expect(border).not.toContain("q7Zx0");
  });

  it("is fast for a hostile line of one megabyte", () => {
    const pieces = ["=", ":", "a=", "a:b@", "://", "-", "eyJ", "password=", " ", "\u001b", "A1", "/", ";a=", "%3D", "$2b$"];
    const cpuMs = cpuMsOf(() => {
      for (const piece of pieces) {
        redactCommandLine([piece.repeat(1_000_000 / piece.length)]);
        redactCommandLine(["app", piece.repeat(Math.floor(8_000 / piece.length)), piece.repeat(Math.floor(7_000 / piece.length))]);
        redactText(piece.repeat(Math.floor(16_000 / piece.length)));
      }
    });
    expect(cpuMs).toBeLessThan(3_000);
  });

  it("keeps the names of temporary directories, and masks path segments as long as a secret", () => {
    const random = seededRandom(29);
    const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const chance = (length: number, alphabet = letters): string =>
      Array.from({ length }, () => alphabet[Math.floor(random() * alphabet.length)]!).join("");
    let leaked = 0;
    for (let round = 0; round < 2_000; round++) {
      for (const path of [
        `/tmp/coral-discovery-e2e-${chance(6)}/x.mjs`,
        `/tmp/my_Long_Test-Name2-${chance(8)}/server.js`,
        `/var/tmp/tmp.${chance(10)}/run`,
        `/tmp/pytest-of-root/pytest-12/test_upload_of_Files0-${chance(10)}/app.py`,
      ]) {
        expect(redactCommandLine(["node", path])).toBe(`node ${path}`);
      }
      const secret = chance(32, `${letters}-_`);
      if (redactCommandLine(["app", `https://example.com/hook/${secret}/x`]).includes(secret)) leaked++;
      expect(redactCommandLine(["app", `/run/x/${chance(24)}9aB`])).toBe("app /run/x/***");
    }
    // About one in a hundred has too few digits or case changes to differ from words; flag names catch most of those.
    expect(leaked).toBeLessThan(40);
  });

  it("adds the rules of the config", () => {
    const rules = { names: ["codeword"], patterns: [/ACME-\d+/] };
    expect(redactCommandLine(["app", "--codeword", "swordfish", "id=ACME-12345"], rules)).toBe("app --codeword *** id=***");
    // A pattern that matches the empty string must neither loop nor fill the line.
    expect(redactCommandLine(["app"], { names: [], patterns: [/x*/g] })).toBe("app");
  });

  it("survives any input, and never leaves a known secret", () => {
    const random = seededRandom(23);
    const words = [
      ...damagedTexts(
        secrets.flatMap(([command]) => command),
        24,
        300,
      ),
    ];
    for (let round = 0; round < 1_000; round++) {
      const noise = Array.from({ length: Math.floor(random() * 5) }, () => words[Math.floor(random() * words.length)]!);
      const line = redactCommandLine([...noise, "--end", "--password", "swordfish99"]);
      expect(line).not.toContain("swordfish99");
      expect(line.length).toBeLessThanOrEqual(4096);
      expect(line).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    }
  });
});

describe("redactEnvironment()", () => {
  it("keeps only the variables that identify a process", () => {
    expect(
      redactEnvironment([
        "OTEL_SERVICE_NAME=checkout",
        "NODE_ENV=production",
        "PORT=8080",
        "HOSTNAME=shop-api-7d9f8b6c5-x2x4z",
        "PATH=/usr/bin",
        "AWS_SECRET_ACCESS_KEY=abc",
        "DATABASE_URL=postgres://a:b@c/d",
        "MY_THING=1",
        "SERVICE_TOKEN=abc",
        "=x",
        "PORT",
      ]),
    ).toEqual({ OTEL_SERVICE_NAME: "checkout", NODE_ENV: "production", PORT: "8080", HOSTNAME: "shop-api-7d9f8b6c5-x2x4z" });
  });

  it("redacts kept variables", () => {
    expect(
      redactEnvironment([
        `SERVICE_NAME=${jwt}`,
        "OTEL_EXPORTER_OTLP_ENDPOINT=https://bob:hunter2@otel.example.com",
        "OTEL_RESOURCE_ATTRIBUTES=service.name=shop,api.key=abcdef",
        "APP_NAME=a\u001b[31mb\nc",
        `LANG=${"x".repeat(5_000)}`,
      ]),
    ).toEqual({
      SERVICE_NAME: "***",
      OTEL_EXPORTER_OTLP_ENDPOINT: "https://***@otel.example.com",
      OTEL_RESOURCE_ATTRIBUTES: "service.name=shop,api.key=***",
      APP_NAME: "ab c",
      LANG: "x".repeat(256),
    });
  });

  it("limits the number of variables", () => {
    expect(Object.keys(redactEnvironment(Array.from({ length: 10_000 }, () => "PORT=1")))).toEqual(["PORT"]);
  });
});
