/** Reads the owner of a cgroup from its path: a systemd unit, a container. */

import { printable } from "../../base/escape-text.ts";
import { wordSet } from "../files/kernel-text.ts";

/** Units that start unrelated services: their name does not describe the processes inside. */
const supervisors = wordSet(`
  cron crond anacron atd rc-local supervisor supervisord monit runit runsvdir s6-svscan docker containerd crio cri-o podman
  kubelet k3s k3s-agent snap.docker.dockerd buildkit lxc lxd incus getty user display-manager gdm systemd-logind
`);
/** Generated at run time: `systemd-run`, pm2 of one user, numbered or hashed transient units. */
const transientUnit = /^(?:run-[ru]?[0-9a-f]+|run-p\d+-i\d+|pm2(?:-.*)?)$/;

function decodeUnit(name: string): string {
  return name.replace(/\\x([0-9a-f]{2})/gi, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}

/** `nginx` for `/system.slice/nginx.service`; the innermost service, also of a systemd inside a container. Null when there is none that names its processes. */
export function systemdUnitOf(cgroup: string): string | null {
  for (const segment of cgroup.split("/").reverse()) {
    if (!segment.endsWith(".service")) continue;
    const unit = decodeUnit(segment.slice(0, -".service".length));
    const template = unit.split("@", 1)[0] ?? unit;
    if (unit === "" || supervisors.has(template) || transientUnit.test(unit)) return null;
    // `app@1` and `postgresql@15-main` are numbered copies; `redis@queue` is a separate service.
    return /@\d[^@]*$/.test(unit) ? template : unit.replace(/@$/, "");
  }
  return null;
}

/** The innermost unit as systemd writes it, `nginx.service`, supervisors included; null outside of units. */
export function systemdUnitIn(cgroup: string): string | null {
  const segment = cgroup.split("/").findLast((part) => part.endsWith(".service"));
  return segment === undefined || segment === ".service" ? null : printable(decodeUnit(segment), 256);
}
