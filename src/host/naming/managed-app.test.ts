import { describe, expect, it } from "vitest";
import { managedAppOf, managedNameOf } from "./managed-app.ts";

const appOf = (environment: Record<string, string>) => managedAppOf((name) => environment[name]);
const nameOf = (environment: Record<string, string>, ...args: string[]): string | null => {
  const app = appOf(environment);
  return app && managedNameOf(app, args);
};

describe("the name that PM2 gives a program", () => {
  const fork = { name: "mailer", pm_id: "4", pm_exec_path: "/srv/mail/server.js" };
  const cluster = {
    pm2_env: '{"name":"checkout","filter_env":[],"env":{"DB":"postgres://u:p@h"},"pm_exec_path":"/srv/shop/server.js","cut',
  };

  it("is found in both modes", () => {
    expect(nameOf(fork, "node /srv/mail/server.js")).toBe("mailer");
    expect(nameOf(fork, "/usr/bin/python3", "/srv/mail/server.js")).toBe("mailer");
    expect(nameOf(cluster, "node /srv/shop/server.js")).toBe("checkout");
  });

  it("does not apply to programs that the program starts", () => {
    expect(nameOf(fork, "ffmpeg", "-i", "x")).toBeNull();
  });

  it("is ignored if it is the script's name", () => {
    expect(nameOf({ ...fork, name: "server" }, "node /srv/mail/server.js")).toBeNull();
    expect(nameOf({ ...fork, name: "api" }, "node /srv/mail/server.js")).toBe("api");
  });

  it("requires PM2's variables", () => {
    expect(appOf({ name: "mailer", pm_exec_path: "/x.js" })).toBeNull();
    expect(appOf({ name: "mailer", pm_id: "1" })).toBeNull();
    expect(appOf({ pm2_env: "no JSON" })).toBeNull();
  });
});
