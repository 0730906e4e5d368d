/** Where well-known programs accept secrets that neither the option's name nor the shape reveals. */

import { wordSet } from "./secret-names.ts";

interface ProgramFlag {
  flag: string;
  /** The secret is attached: `-pSECRET`. */
  attached: boolean;
  /** The secret is the next argument. */
  separate: boolean;
}

export interface ProgramSecrets {
  flags: readonly ProgramFlag[];
  /** Options whose value is `user:password`, with the separator between the two: `-a bob:secret`. */
  logins: readonly { flag: string; separator: ":" | "," | "%" }[];
  /** A word after which arguments are secrets, and their positions: 1 is the next. Without a word, counted from the program. */
  positions: readonly { after: string | null; at: readonly number[] }[];
  /** Purely hexadecimal arguments are commits or container ids. */
  takesIds: boolean;
  /** `user/password` is a login, also without a host. */
  isOracle: boolean;
}

const attachedOnly = (flag: string): ProgramFlag => ({ flag, attached: true, separate: false });
const both = (flag: string): ProgramFlag => ({ flag, attached: true, separate: true });
const separateOnly = (flag: string): ProgramFlag => ({ flag, attached: false, separate: true });

interface Entry extends Partial<ProgramSecrets> {
  programs: string;
  /** Applies only if this word is among the first ones: `-p` of `docker run` is a port. */
  command?: RegExp;
}

const entries: readonly Entry[] = [
  // MySQL prompts when `-p` stands alone; the next word is then something else.
  {
    programs: `mysql mariadb mysqldump mysqladmin mysqlimport mysqlcheck mysqlshow mysqlslap mysqlbinlog mysqlpump mysqlsh mydumper myloader
      xtrabackup mariabackup mariadb-dump mariadb-admin mariadb-import mariadb-check mariadb-show mariadb-slap mariadb-binlog mytop mycli`,
    flags: [attachedOnly("-p")],
  },
  { programs: "sshpass 7z 7za 7zr unrar rar useradd usermod", flags: [both("-p"), attachedOnly("-hp")] },
  { programs: "redis-cli redis-benchmark valkey-cli valkey-benchmark keydb-cli", flags: [separateOnly("-a")] },
  {
    programs: `mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat mongotop mongofiles rdesktop cqlsh rabbitmqadmin
      amqp-publish amqp-consume amqp-get ncftp ncftpget ncftpput ncftpls evil-winrm netexec nxc crackmapexec hydra medusa twine beeline
      cypher-shell sendxmpp ipmipower ipmi-sensors ipmi-sel`,
    flags: [both("-p")],
  },
  {
    programs: "docker podman nerdctl buildah skopeo helm oc az cf crane regctl oras ibmcloud",
    command: /^login$/,
    flags: [both("-p")],
  },
  { programs: "docker podman nerdctl crictl ctr runc crun git", takesIds: true },
  {
    programs: "mosquitto_pub mosquitto_sub mosquitto_rr mqttx sqlcmd bcp osql tsql freebcp fisql zip zipcloak unzip smbpasswd ipmitool",
    flags: [both("-P")],
  },
  { programs: "isql iusql", flags: [both("-P")], positions: [{ after: null, at: [3] }] },
  {
    programs: "ldapsearch ldapmodify ldapadd ldapdelete ldappasswd ldapwhoami ldapcompare ldapmodrdn ldapexop ldapvi vsql",
    flags: [both("-w")],
  },
  { programs: "ldappasswd slappasswd", flags: [both("-s"), separateOnly("-a")] },
  {
    programs: `snmpwalk snmpget snmpgetnext snmpset snmpbulkwalk snmpbulkget snmptrap snmpinform snmptable snmpdf snmpdelta snmpnetstat
      snmpstatus snmptest snmpusm snmpvacm snmpping snmpps snmptls snmpwalk.py onesixtyone`,
    flags: [both("-c"), both("-A"), both("-X"), both("-3m"), both("-3M"), both("-3k"), both("-3K")],
  },
  { programs: "snmpd snmptrapd braa", flags: [separateOnly("-c")] },
  {
    programs: "check_snmp check_snmp_int check_snmp_storage check_ifstatus check_ifoperstatus",
    flags: [both("-C"), separateOnly("-A"), separateOnly("-X")],
  },
  {
    programs: "openssl",
    flags: ["-passin", "-passout", "-pass", "-k", "-K", "-psk", "-srppass", "-hmac"].map(separateOnly),
    positions: [{ after: "passwd", at: [1] }],
  },
  { programs: "xfreerdp xfreerdp3 wfreerdp", flags: [attachedOnly("/p:"), attachedOnly("/gp:")] },
  { programs: "curl", flags: [both("-b")], logins: ["-u", "-U", "-E", "--cert", "--proxy-cert"].map((flag) => ({ flag, separator: ":" })) },
  { programs: "http https xh xhs hey httpx sipsak", logins: [{ flag: "-a", separator: ":" }] },
  { programs: "ab", logins: ["-A", "-P"].map((flag) => ({ flag, separator: ":" })) },
  { programs: "dig kdig delv nsupdate host rndc", logins: [{ flag: "-y", separator: ":" }] },
  { programs: "lftp", logins: [{ flag: "-u", separator: "," }] },
  {
    programs: "smbclient smbget smbmap smbcacls smbcquotas smbspool smbtree rpcclient net winexe wmic pth-winexe samba-tool",
    logins: [{ flag: "-U", separator: "%" }],
  },
  { programs: "consul nomad serf", flags: [separateOnly("-encrypt")] },
  { programs: "swaks sipp", flags: [separateOnly("-ap")] },
  { programs: "sendemail", flags: [separateOnly("-xp")] },
  { programs: "ssh-keygen", flags: [both("-N"), both("-P")] },
  { programs: "pk12util", flags: [both("-W"), both("-K")] },
  { programs: "influx", flags: [separateOnly("-t")] },
  { programs: "gh", command: /^secret$/, flags: [separateOnly("-b"), separateOnly("--body")] },
  { programs: "rabbitmqctl", positions: ["add_user", "change_password", "authenticate_user"].map((after) => ({ after, at: [2] })) },
  { programs: "htpasswd", command: /^-\w*b\w*$/, positions: [{ after: null, at: [3] }] },
  { programs: "htpasswd", command: /^-(?=\w*b)\w*n\w*$/, positions: [{ after: null, at: [2] }] },
  { programs: "mc mcli", positions: ["set", "add"].map((after) => ({ after, at: [3, 4] })) },
  { programs: "vault bao", positions: ["login", "unwrap", "unseal"].map((after) => ({ after, at: [1] })) },
  { programs: "ngrok", positions: ["authtoken", "add-authtoken"].map((after) => ({ after, at: [1] })) },
  { programs: "wpa_cli", positions: ["psk", "wep_key0"].map((after) => ({ after, at: [1] })) },
  { programs: "wpa_passphrase", positions: [{ after: null, at: [2] }] },
  { programs: "db2 db2cli", positions: [{ after: "using", at: [1] }] },
  { programs: "rclone", positions: [{ after: "obscure", at: [1] }] },
  { programs: "qpdf", positions: [{ after: "--encrypt", at: [1, 2] }] },
  { programs: "sqlplus sqlldr sqlcl sql exp imp expdp impdp rman dgmgrl tnsping sqlplusw", isOracle: true },
];

const table = new Map<string, Entry[]>();
for (const entry of entries) {
  for (const program of wordSet(entry.programs)) table.set(program, [...(table.get(program) ?? []), entry]);
}

/** How many words may precede the program of a command: `sudo -u app env X=1 mysql`. */
const maxWrappers = 8;

function programNameOf(word: string): string {
  const name = word.slice(word.lastIndexOf("/") + 1);
  return /^["'(`]*(.*?)["')`]*$/.exec(name)?.[1]?.toLowerCase() ?? "";
}

/**
 * Secrets of the program that the first words name, with the index of that word; null for unknown programs. Skips wrappers such as `sudo`.
 */
export function programSecretsOf(words: readonly string[]): { index: number; secrets: ProgramSecrets } | null {
  const end = Math.min(words.length, maxWrappers);
  for (let index = 0; index < end; index++) {
    const found = table.get(programNameOf(words[index] ?? ""));
    if (!found) continue;
    const known = found.filter(({ command }) => command === undefined || words.slice(index + 1).some((word) => command.test(word)));
    return { index, secrets: merge(known) };
  }
  return null;
}

function merge(found: readonly Entry[]): ProgramSecrets {
  return {
    flags: found.flatMap(({ flags }) => flags ?? []),
    logins: found.flatMap(({ logins }) => logins ?? []),
    positions: found.flatMap(({ positions }) => positions ?? []),
    takesIds: found.some(({ takesIds }) => takesIds),
    isOracle: found.some(({ isOracle }) => isOracle),
  };
}

/** Indexes of the words that are secrets by position. */
export function secretPositions(words: readonly string[], start: number, { positions }: ProgramSecrets): ReadonlySet<number> {
  const found = new Set<number>();
  for (const { after, at } of positions) {
    const from = after === null ? start : words.indexOf(after, start + 1);
    if (from < 0) continue;
    let count = 0;
    for (let index = from + 1; index < words.length; index++) {
      if (words[index]?.startsWith("-")) continue;
      if (at.includes(++count)) found.add(index);
    }
  }
  return found;
}
