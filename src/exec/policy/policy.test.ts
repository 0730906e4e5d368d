import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { testRule, testSettings } from "../command-runner.fixture.ts";
import type { ExecRule, ExecSettings } from "./exec-settings.ts";
import { isLauncher } from "./launchers.ts";
import { parseCommand, stageOfArgv } from "./parse-command.ts";
import { type Decision, decide, type PolicyRequest, ruleWarnings } from "./policy.ts";
import { createRootFiles, type RootFiles, unseenFiles } from "./root-files.ts";

const contacting = ["curl", "dig", "host", "nslookup", "ping", "traceroute", "tracepath", "getent", "ss", "tcpdump", "lsof", "ip"];
let root: string;
let files: RootFiles;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "coral-policy-"));
  await chmod(root, 0o755);
  await mkdir(join(root, "usr/bin"), { recursive: true });
  await mkdir(join(root, "opt/tools"), { recursive: true });
  await mkdir(join(root, "home/user"), { recursive: true });
  for (const name of ["ps", "cat", "systemctl", "bash", "env", "mawk", "busybox", ...contacting])
    await writeFile(join(root, "usr/bin", name), "\x7fELF", { mode: 0o755 });
  await writeFile(join(root, "opt/tools/report"), "\x7fELF", { mode: 0o755 });
  await writeFile(join(root, "home/user/systemctl"), "\x7fELF", { mode: 0o755 });
  await chmod(join(root, "home/user"), 0o777);
  await symlink("/usr/bin/bash", join(root, "usr/bin/innocent"));
  await symlink("/usr/bin/bash", join(root, "opt/tools/shell"));
  await symlink("mawk", join(root, "usr/bin/awk"));
  await symlink("busybox", join(root, "usr/bin/wget"));
  files = createRootFiles(root);
});
afterAll(() => rm(root, { recursive: true }));

function decideFor(text: string, rules: ExecRule[], settings: Partial<ExecSettings> = {}, request: Partial<PolicyRequest> = {}): Decision {
  return decide(
    { ...testSettings, profile: "diagnostics", ...settings, rules },
    {
      stages: parseCommand(text),
      kind: "exec",
      caller: "token:ci",
      targets: ["host"],
      environment: "production",
      isReadOnly: false,
      files,
      workingDirectory: "",
      ...request,
    },
  );
}
const action = (...args: Parameters<typeof decideFor>): string => decideFor(...args).action;

describe("rules", () => {
  it("apply in order; the first match decides", () => {
    const rules = [
      testRule({ name: "no payments", action: "deny", program: ["systemctl"], args: ["*payments*"] }),
      testRule({ name: "restarts", action: "allow", program: ["systemctl"], args: ["restart", "nginx*"], runAs: "root" }),
    ];
    expect(decideFor("systemctl restart nginx.service", rules)).toMatchObject({ action: "allow", rule: "restarts", runAs: "root" });
    expect(decideFor("systemctl restart payments", rules)).toMatchObject({ action: "deny", rule: "no payments" });
    expect(action("systemctl restart ssh", rules)).toBe("deny");
    // One argument that no pattern allows is enough to deny.
    expect(action("systemctl restart nginx --root=/tmp", rules)).toBe("deny");
    expect(action("systemctl -H evil restart nginx", rules)).toBe("deny");
    expect(decideFor("systemctl status ssh", rules)).toMatchObject({ action: "allow", rule: "profile diagnostics", runAs: undefined });
  });

  it("match caller, target, environment and kind", () => {
    const rule = testRule({
      action: "allow",
      program: ["bash"],
      user: ["local:*"],
      target: ["service api*"],
      environment: ["staging"],
      kind: ["shell"],
    });
    const fitting: Partial<PolicyRequest> = { caller: "local:uid=0", targets: ["service api-1"], environment: "staging", kind: "shell" };
    expect(action("bash", [rule], {}, fitting)).toBe("allow");
    for (const change of [{ caller: "token:x" }, { targets: ["host"] }, { environment: "production" }, { kind: "exec" as const }])
      expect(action("bash", [rule], {}, { ...fitting, ...change }), JSON.stringify(change)).toBe("deny");
  });

  it("that deny a service deny its whole container; allow rules do not extend to it", () => {
    const inside = { targets: ["container web"], neighbours: ["service payments"] };
    for (const kind of ["deny", "require_approval"] as const) {
      const rules = [testRule({ action: kind, target: ["service pay*"] })];
      expect(action("ps", rules, {}, inside)).toBe(kind);
      expect(action("ps", rules, {}, { targets: ["container web"] })).toBe("allow");
    }
    expect(action("bash", [testRule({ action: "allow", program: ["bash"], target: ["service pay*"] })], {}, inside)).toBe("deny");
  });

  it("that deny a container deny every container with an unknown name", () => {
    const unnamed = { targets: ["host pid 7"], isUnnamed: true };
    for (const target of ["container web", "container*", "*web"])
      expect(action("ps", [testRule({ action: "deny", target: [target] })], {}, unnamed), target).toBe("deny");
    expect(decideFor("ps", [testRule({ action: "deny", target: ["container web"] })], {}, unnamed).why).toContain("is currently unknown");
    for (const target of ["host", "service web"])
      expect(action("ps", [testRule({ action: "deny", target: [target] })], {}, unnamed), target).toBe("allow");
    expect(action("bash", [testRule({ action: "allow", program: ["bash"], target: ["container web"] })], {}, unnamed)).toBe("deny");
  });

  it("that deny match every name of a program", () => {
    const rules = [testRule({ action: "deny", program: ["bash"] })];
    for (const text of ["bash", "/usr/bin/bash", "innocent", "/usr/bin/../bin/bash", "/usr/bin/innocent"])
      expect(action(text, rules, { profile: "full" }), text).toBe("deny");
    expect(action("ps", rules, { profile: "full" })).toBe("allow");
    expect(action("ps | bash", rules, { profile: "full" })).toBe("deny");
  });

  it("that allow a name match only programs installed by root", () => {
    const rules = [testRule({ action: "allow", program: ["systemctl", "innocent", "awk"] })];
    expect(action("systemctl stop x", rules)).toBe("allow");
    expect(action("/home/user/systemctl stop x", rules)).toBe("deny");
    // A name does not allow a shell that it links to; a link between two names of one launcher is allowed.
    expect(action("innocent -c id", rules)).toBe("deny");
    expect(action("awk 1", rules)).toBe("allow");
  });

  it("that allow a path match only that file", () => {
    const rules = [testRule({ action: "allow", program: ["/opt/tools/*"] })];
    expect(action("/opt/tools/report --all", rules)).toBe("allow");
    for (const way of [
      "/opt/tools/../../usr/bin/bash",
      "/opt/tools/./../../usr/bin/bash",
      "/opt/tools/shell",
      "//opt/tools/../../usr/bin/env",
    ])
      expect(action(way, rules), way).toBe("deny");
    expect(action("report", rules, {}, { stages: [stageOfArgv(["/usr/bin/env"])] })).toBe("deny");
  });

  it("of a pipeline must allow each program, as one user", () => {
    const rules = [testRule({ action: "allow", program: ["curl"], runAs: "root" })];
    expect(action("curl x", rules)).toBe("allow");
    expect(decideFor("curl x | cat", rules)).toMatchObject({ action: "deny", rule: "run_as" });
    expect(action("ps | bash", [])).toBe("deny");
    expect(action("ps | cat", [])).toBe("allow");
  });

  it("that restrict arguments or the user also restrict the working directory", () => {
    const rules = [testRule({ name: "bound", action: "allow", program: ["systemctl"], args: ["restart", "nginx"], runAs: "root" })];
    expect(action("systemctl restart nginx", rules)).toBe("allow");
    expect(decideFor("systemctl restart nginx", rules, {}, { workingDirectory: "/tmp" })).toMatchObject({ action: "deny", rule: "bound" });
    expect(action("bash", [testRule({ action: "allow", program: ["bash"] })], {}, { workingDirectory: "/tmp" })).toBe("allow");
  });

  it("restrict a read-only caller further but never extend its access", () => {
    const allow = [testRule({ action: "allow", program: ["bash"] })];
    expect(action("bash", allow, { profile: "full" }, { isReadOnly: true })).toBe("deny");
    const deny = [testRule({ action: "deny", program: ["ps"] })];
    expect(action("ps", deny, { profile: "full" }, { isReadOnly: true })).toBe("deny");
    const held = [testRule({ action: "require_approval", program: ["bash", "ps"] })];
    expect(action("bash", held, { profile: "full" }, { isReadOnly: true })).toBe("deny");
    expect(action("ps", held, { profile: "full" }, { isReadOnly: true })).toBe("require_approval");
  });

  it("match by name only if the files are not visible", () => {
    expect(action("ps aux", [], {}, { files: unseenFiles })).toBe("allow");
    expect(action("/tmp/ps", [], {}, { files: unseenFiles })).toBe("deny");
    expect(action("sh -c id", [], {}, { files: unseenFiles })).toBe("deny");
    expect(action("cat /etc/shadow", [], {}, { files: unseenFiles })).toBe("deny");
  });

  it("that allow a launcher cause a warning", () => {
    expect(ruleWarnings([testRule({ name: "x", action: "allow", program: ["/usr/bin/python3.11", "ps"] })])).toEqual([
      expect.stringContaining('"x" of exec.rules allows python3.11'),
    ]);
    expect(ruleWarnings([testRule({ action: "deny", program: ["bash"] }), testRule({ action: "allow", program: ["ps"] })])).toEqual([]);
  });
});

describe("isLauncher()", () => {
  it.each([
    "sh",
    "bash",
    "python3",
    "python3.11",
    "perl5.36",
    "ld-linux-x86-64.so.2",
    "ld-musl-x86_64.so.1",
    "vim.basic",
    "busybox",
    "env",
    "xargs",
    "node",
    "lua5.4",
    "gawk",
  ])("recognises %s", (name) => {
    expect(isLauncher(name)).toBe(true);
  });

  it.each(["ps", "ss", "top", "traceroute.db", "cat", "journalctl", "dig"])("does not include %s", (name) => {
    expect(isLauncher(name)).toBe(false);
  });
});

describe("hosts that models contact", () => {
  const model: Partial<PolicyRequest> = { isModel: true, isReadOnly: true };

  it.each([
    "curl -I https://leak.example.com/secret",
    "curl -s http://10.0.0.5/health",
    "dig secret.example.com",
    "dig @192.0.2.1 localhost",
    "dig -x 192.0.2.1",
    "dig -q secret.example.com",
    "host secret.example.com",
    "nslookup secret.example.com",
    "nslookup localhost 192.0.2.1",
    "ping -c 1 secret.example.com",
    "traceroute secret.example.com",
    "tracepath secret.example.com",
    "getent ahosts secret.example.com",
    "ss -tn dst secret.example.com",
    "ss -tn 'dst = secret.example.com:443'",
    "tcpdump -c 1 host secret.example.com",
    "lsof -i @secret.example.com:443",
    "lsof -iTCP@secret.example.com",
    "ip -r route get 2001:db8::1",
  ])("are refused by default: %s", (text) => {
    expect(action(text, [])).toBe("allow");
    const decision = decideFor(text, [], {}, model);
    expect(decision).toMatchObject({ action: "deny", rule: "profile diagnostics" });
    expect(decision.why).toContain("exec.model_hosts");
    expect(action(text, [], { modelHosts: ["*"] }, model)).toBe("allow");
    expect(action(text, [], { modelHosts: ["*.internal"] }, model)).toBe("deny");
  });

  it.each([
    "curl -s http://localhost:8080/health",
    "curl -s http://127.0.0.1:8080/ 'http://[::1]/'",
    "dig @127.0.0.1 localhost A +short",
    "ping -c 1 127.0.0.1",
    "getent services http",
    "ss -tnlp state established '( sport = :80 or dport = :https )'",
    "ss -tn dst 127.0.0.1:443 and not src '[::1]:80'",
    "tcpdump -c 10 -i lo 'tcp port 80 and (tcp[tcpflags] & tcp-syn != 0)'",
    "tcpdump -c 10 udp portrange 1000-2000",
    "lsof -i :8080 -n -P",
    "ip route get 192.0.2.1",
  ])("may be this machine: %s", (text) => {
    expect(decideFor(text, [], {}, model).why).toBe("");
  });

  it("may be hosts in the agent's config", () => {
    const settings = { modelHosts: ["*.svc.internal", "10.0.*"] };
    expect(action("curl -I https://Api.svc.internal/health", [], settings, model)).toBe("allow");
    expect(action("curl -s http://10.0.3.4/health", [], settings, model)).toBe("allow");
    expect(action("curl -s http://10.0.3.4/ http://192.0.2.1/", [], settings, model)).toBe("deny");
  });

  it("are not limited if a rule allows the program", () => {
    const rules = [testRule({ action: "allow", program: ["curl"] })];
    expect(action("curl -I https://example.com", rules, {}, { isModel: true })).toBe("allow");
    expect(action("curl -I https://example.com", rules, {}, model)).toBe("deny");
  });
});
