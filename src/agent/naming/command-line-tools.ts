/** Command-line tools are not services, although their connections and requests are recorded: under their name, wherever they were called. */
const tools = new Set(
  `curl wget apt apt-get aptitude dpkg dnf yum apk git git-remote-https ssh scp sftp rsync dig nslookup ping telnet nc ncat netcat socat psql mysql
  mariadb redis-cli mongosh npm npx yarn pnpm pip cargo kubectl helm aws gcloud az terraform ansible ansible-playbook ab wrk hey k6 iperf iperf3
  openssl gpg http https`.split(/\s+/),
);

export function isCommandLineTool(name: string): boolean {
  return tools.has(name);
}
