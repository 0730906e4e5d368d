/** Further attempts to bypass the read-only profile, from a security review; several per line, separated by `##`. See bypass-attempts.fixture.ts. */

const tried = `
curl -K /dev/stdin http://127.0.0.1:1/ ## curl -sS -K- http://127.0.0.1:1/ ## curl --conf SECRET http://127.0.0.1:1/
curl --confi=SECRET ## curl --variable x@SECRET --expand-url http://127.0.0.1:1/{{x}}
curl --expand-output CANARY http://127.0.0.1:1/ ## curl -so/tmp/x http://127.0.0.1:1/ ## curl -soCANARY http://127.0.0.1:1/
curl -ISsoCANARY http://127.0.0.1:1/ ## curl -vso CANARY http://127.0.0.1:1/ ## curl -w %output{CANARY} http://127.0.0.1:1/
curl -w '%OUTPUT{CANARY}x' http://127.0.0.1:1/ ## curl -w '%output{>>CANARY}x' http://127.0.0.1:1/
curl -w '%%output{CANARY}x' http://127.0.0.1:1/ ## curl -w '%{stderr}%output{CANARY}' http://127.0.0.1:1/
curl --write-out @SECRET http://127.0.0.1:1/ ## curl --write-out=@SECRET http://127.0.0.1:1/ ## curl -w@SECRET http://127.0.0.1:1/
curl -w @- http://127.0.0.1:1/ ## curl --remote-name-all http://127.0.0.1:1/x ## curl -J -O http://127.0.0.1:1/x
curl -OJ http://127.0.0.1:1/x ## curl --skip-existing -O http://127.0.0.1:1/x ## curl --ftp-create-dirs http://127.0.0.1:1/
curl --netrc-file SECRET http://127.0.0.1:1/ ## curl --netrc http://127.0.0.1:1/ ## curl --cert SECRET https://127.0.0.1:1/
curl --key SECRET https://127.0.0.1:1/ ## curl --crlfile SECRET https://127.0.0.1:1/ ## curl --random-file SECRET https://127.0.0.1:1/
curl --egd-file SECRET https://127.0.0.1:1/ ## curl --pinnedpubkey SECRET https://127.0.0.1:1/
curl --proxy-header @SECRET http://127.0.0.1:1/ ## curl --data-raw x http://127.0.0.1:1/
curl --data-urlencode x@SECRET http://127.0.0.1:1/ ## curl -G -d @SECRET http://127.0.0.1:1/
curl -G --data-urlencode x@SECRET http://127.0.0.1:1/ ## curl --get --data @SECRET http://127.0.0.1:1/
curl --url-query x@SECRET http://127.0.0.1:1/ ## curl --url-query @SECRET http://127.0.0.1:1/
curl --form-string x=y http://127.0.0.1:1/ ## curl --aws-sigv4 x http://127.0.0.1:1/ ## curl --next -o CANARY http://127.0.0.1:1/
curl http://127.0.0.1:1/ --next -oCANARY http://127.0.0.1:1/ ## curl -- -o CANARY http://127.0.0.1:1/
curl http://127.0.0.1:1/ -- -K SECRET ## curl http://127.0.0.1:1/ -o CANARY ## curl http://127.0.0.1:1/ -o/dev/null/../CANARY
curl -o /dev/null http://127.0.0.1:1/ -o CANARY http://127.0.0.1:1/ ## curl -o /dev/../CANARY http://127.0.0.1:1/
curl -o /dev/null -o CANARY http://127.0.0.1:1/ ## curl file:///etc/passwd ## curl -I file:///etc/passwd
curl 'file://localhost/etc/passwd' ## curl http://127.0.0.1:1/ file:///etc/passwd ## curl FiLe:///etc/passwd ## curl ://etc/passwd
curl /etc/passwd ## curl http:/127.0.0.1:1/ ## curl http:///127.0.0.1/ ## curl 'http://127.0.0.1:1/#@169.254.169.254/'
curl 'http://127.0.0.1:1#@169.254.169.254/' ## curl 'http://127.0.0.1:1;@169.254.169.254/' ## curl http://user:pw@127.0.0.1:1/
curl 'http://169.254.169.254%2f@127.0.0.1/' ## curl 'http://[::1%25lo]:1/' ## curl 'http://[fe80::1]/latest'
curl 'http://[::ffff:a9fe:a9fe]/' ## curl 'http://[::169.254.169.254]/' ## curl 'http://[64:ff9b::a9fe:a9fe]/'
curl http://169.254.169.254./ ## curl http://169.254.169.254:80/ ## curl HTTP://169.254.169.254/
curl http://169.254.170.2/v2/credentials ## curl http://127.0.0.1.nip.io/ ## curl http://localhost.localdomain/
curl http://localtest.me/ ## curl http://LOCALHOST@169.254.169.254/ ## curl http://1/ ## curl http://0/ ## curl http://0.0.0.0:1/
curl http://127.1:1/ ## curl http://0177.0.0.1:1/ ## curl http://127.000.000.001:1/
curl -I -H 'Metadata-Flavor: Google' http://metadata.google.internal/ ## curl -H 'X-aws-ec2-metadata-token: x' http://127.0.0.1:1/
curl -H 'Authorization: Bearer x' http://127.0.0.1:1/ ## curl -H 'Cookie: a=b' http://127.0.0.1:1/
curl -H 'Content-Type: application/json' http://127.0.0.1:1/ ## curl -H 'accept:x' -H 'Host: evil' http://127.0.0.1:1/
curl -X get http://127.0.0.1:1/ ## curl -X 'GET ' http://127.0.0.1:1/ ## curl -X 'GET / HTTP/1.1%0d%0a' http://127.0.0.1:1/
curl -XPATCH http://127.0.0.1:1/ ## curl --request-target /x http://127.0.0.1:1/ ## curl --http0.9 http://127.0.0.1:1/
curl --abstract-unix-socket x http://localhost/ ## curl --unix-socket /var/run/docker.sock http://localhost/containers/json
curl --dns-servers 1.1.1.1 http://localhost/ ## curl --ipfs-gateway http://x ipfs://x ## curl --socks5 127.0.0.1:1 http://localhost/
curl --preproxy x http://localhost/ ## curl --path-as-is http://127.0.0.1:1/../../etc
curl --proto-redir =file -L http://127.0.0.1:1/redir ## curl -sL http://127.0.0.1:1/ ## curl -Lv http://127.0.0.1:1/
curl --location-trusted http://127.0.0.1:1/ ## curl -Z http://127.0.0.1:1/ http://127.0.0.1:1/
curl --mail-from x http://127.0.0.1:1/ ## curl -Q 'DELE x' ftp://127.0.0.1/ ## curl -t TTYPE=x telnet://127.0.0.1/
curl --stderr - --trace-asc CANARY http://127.0.0.1:1/ ## curl --trace-time --trace CANARY http://127.0.0.1:1/
curl --no-q http://127.0.0.1:1/ ## curl --disable http://127.0.0.1:1/ ## curl -m 999999 http://127.0.0.1:1/
curl --retry 5 http://127.0.0.1:1/ ## curl --rate 1/d http://127.0.0.1:1/ ## curl --continue-at 1 -o CANARY http://127.0.0.1:1/
curl --xattr -o CANARY http://127.0.0.1:1/ ## curl --keepalive-time 1 http://127.0.0.1:1/
curl --haproxy-protocol http://127.0.0.1:1/ ## curl --tftp-blksize 512 tftp://127.0.0.1/x ## curl http://127.0.0.1:1/[1-3]
curl http://127.0.0.1:1/{a,b}
curl http://127.0.0.1:1/a http://127.0.0.1:1/b http://127.0.0.1:1/c http://127.0.0.1:1/d http://127.0.0.1:1/e
curl -e x http://127.0.0.1:1/ ## curl --help all ## curl --manual ## curl -V ## journalctl --vacuum-s=1K
journalctl --smart-relinquish-var ## journalctl --relinquish-var ## journalctl --verify ## journalctl --verify-key=x
journalctl --force --setup-keys ## journalctl --interval=1 ## journalctl --cursor-file=CANARY -n1
journalctl -n1 --cursor-file CANARY ## journalctl --namespace=x ## journalctl --list-namespaces ## journalctl -D /root
journalctl --directory=/root ## journalctl --file=/etc/passwd ## journalctl -i SECRET ## journalctl --header
journalctl --dump-catalog ## journalctl -F MESSAGE ## journalctl --field=MESSAGE ## journalctl -N ## journalctl /bin/sh
journalctl /dev/sda ## journalctl -o export ## journalctl --synchronize-on-exit=yes ## journalctl -u x -M y
journalctl --machine=.host ## journalctl --truncate-newline ## ip -b /dev/stdin ## ip -batch - ## ip -B ## ip -force addr
ip -a netns exec id ## ip netns exec x id ## ip n e x id ## ip netns pids x ## ip netns attach x 1 ## ip netns monitor
ip netns del x ## ip netns set x 1 ## ip -netns x link ## ip -n x addr show ## ip link set dev lo down ## ip link lst
ip link delete lo ## ip address show dev lo scope host save ## ip address flush dev lo ## ip address showdump ## ip addr sh
ip a s lo up ## ip addr replace 1.2.3.4/32 dev lo ## ip route add 1.2.3.4 dev lo ## ip route flush cache ## ip route showdump
ip rule flush ## ip rule save ## ip neigh add x ## ip neigh get x ## ip maddr add x ## ip mroute ## ip monitor all ## ip l2tp
ip link show type x/../../../tmp/x ## tcpdump -c 1 -i dbus-system ## tcpdump -c 1 -i usbmon0
tcpdump -c 1 -inflog:5 ## tcpdump -c 1 --interface=nfqueue ## tcpdump -c 1 -i bluetooth-monitor ## tcpdump -c 1 -i 9 ## ip fou add ## ip ila ## ip macsec ## ip sr ## ip token ## ip tunnel add ## ip vrf exec x id ## ip mptcp ## ip nexthop flush ## ip stats
ip ioam ## ip addrlabel flush ## ip link afstats ## ip link xstats ## ip link property add dev lo altname x ## ip -c=always link
ip -V ## ip help ## ip -rcvbuf 9999999 link ## ip -l 1 a ## ip -f inet link set lo down ## ip tcp_metrics flush
ip tcp_metrics delete 1.1.1.1 ## ip ntable change name x ## dmesg -TC ## dmesg -Tn1 ## dmesg --console-level 1 ## dmesg --console-off
dmesg --console-on ## dmesg -S ## dmesg --syslog ## dmesg -s 999999999 ## dmesg --buffer-size 1 ## dmesg -K/etc/passwd
dmesg -F/etc/passwd ## dmesg --file=/etc/passwd ## dmesg --kmsg-file=/etc/passwd ## dmesg -lerr -n1 ## dmesg -h ## ss -K dst 127.0.0.1
ss -aK ## ss -nKt state close ## ss --kill=1 ## ss -DCANARY ## ss --diag=CANARY ## ss -F/etc/passwd ## ss --filter=/etc/passwd
ss -A inet -F SECRET ## ss -Nx ## ss --net=x ## ss --tos --cgroup ## ss -t -f inet -D- ## ss '( sport = :22 )' -K ## ss --events
ss --bpf ## ss -Z ## ss --contexts ## ss --vsock ## top -b -n1 -d0.0001 ## top -bn1 -E ## top -b -n 1 -s ## top -bn 11
top -b -n 1 -n 99 ## top -b -n-1 ## top -bn1 -w999999 ## top -h ## top -v ## top -bn1 -p$(id) ## top -b -n 1 -U root ## top -b -n 1 -e
top -bn1 -A ## top -bn1 -S ## dig -fSECRET ## dig -y hmac:x:y x ## dig -46f SECRET ## dig @127.0.0.1 x +qr +tls-ca=/etc/passwd
dig x +https=/etc ## dig +tls-ca=SECRET +tls x ## dig -- -f SECRET ## dig %x -f SECRET ## dig x @127.0.0.1 -p 1 -f SECRET ## dig -h
dig -m x ## dig -i x ## host -m trace x ## host -A x ## host -p 1 x ## nslookup -type=any x ## nslookup -f SECRET ## nslookup x -
lsof +r 1 ## lsof -r1 ## lsof +D /root ## lsof +d /root ## lsof -D bCANARY ## lsof -Di ## lsof -DbCANARY ## lsof -kSECRET ## lsof +c 0
lsof -c /sh/ ## lsof +L1 ## lsof -L ## lsof +m CANARY ## lsof +mCANARY ## lsof +m ## lsof +M ## lsof -e / ## lsof +e / ## lsof -E
lsof +E ## lsof -S 2 ## lsof -T ## lsof -X ## lsof -x f ## lsof -z ## lsof -Z ## lsof -O ## lsof -f ## lsof +f -- / ## lsof +w
lsof -i -r1 ## lsof -s -r1 ## lsof -F0pcn -r1 ## lsof -g-r1 ## lsof -iTCP -sTCP:LISTEN -r1 ## lsof -- +r1 ## lsof -tF -DbCANARY
strace -c -p 1 -- id ## strace -c -p 1 id ## strace -c id ## strace -cp1 -oCANARY ## strace -co CANARY -p 1 ## strace -c -p 1 -o '!id'
strace -c -p1 -e inject=all ## strace -c -p1 -e trace=none -e write=1 ## strace -c -p1 --inject=all ## strace -c -p1 -k
strace -c -p1 -y ## strace -c -p1 -s 9999 ## strace -c -p1 -v ## strace -c -p1 -D ## strace -c -p1 -b execve ## strace -c -p1 -I 4
strace -c -p1 -u nobody ## strace -c -p1 --user=root ## strace -cf -p 1 -P /etc/shadow ## strace -C -p1 ## strace --attach=1 -c
strace -c -p self ## strace -c -p '1 2' ## strace -c -pid ## strace -c -p1 -E A=B ## strace -c -p1 --env=LD_PRELOAD=x
strace -c -p1 -e 'signal=!all' ## strace -cttt -p1 ## strace -c -p1 -e kvm=vcpu ## strace -c -p1 -X raw
strace -c -p1 -e trace=/regex ## strace -c -p1 -e trace=file@64 ## strace -c -p1 -z ## strace -c -p1 --seccomp-bpf ## strace -d -c -p1
ps aux;id ## ps aux&id ## ps aux && id ## ps aux&&id ## ps aux||id ## ps aux|id|sh ## ps aux | sh ## ps aux | bash -s
ps aux |tee CANARY ## ps aux | tee CANARY ## ps aux | dd of=CANARY ## ps aux | cat > CANARY ## ps aux | cat >CANARY ## ps aux>CANARY
ps aux>|CANARY ## ps aux >| CANARY ## ps aux 1>|CANARY ## ps aux >>CANARY ## ps aux &>>CANARY ## ps aux 3>CANARY ## ps aux <>CANARY
ps aux 1<>CANARY ## ps aux >&CANARY ## ps aux > /dev/nullx ## ps aux >/dev/null>CANARY ## ps aux 2>/dev/null>CANARY
ps aux >/dev/null >CANARY ## ps aux 2>&1>CANARY ## ps aux 2>&11 ## ps aux 2>&1CANARY ## ps aux >/proc/sys/kernel/hostname
echo 1 > /proc/sys/vm/drop_caches ## echo x >/dev/tcp/127.0.0.1/80 ## echo b > /proc/sysrq-trigger ## echo x > '/proc/self/fd/1'
cat <<EOF ## cat <<<x ## cat 0<SECRET ## cat <(id) ## echo $((1+1)) ## echo $(<SECRET) ## echo $"id" ## ps {aux,ef} ## ls /{etc,root}
ls /e??/shadow ## ls /[e]tc ## ls ~/ ## ls ~root ## ls ~+ ## ls /etc/* ## ls "/etc/"* ## ps & ## ps| ## ps||ps ## ps | | ps
ps |& cat ## ps "aux ## cat /var/log/../../SECRET ## cat /var/log//../..SECRET ## cat /proc/self/../../etc/passwd
cat /proc/self/task/self/environ ## cat /proc/1/task/1/environ ## cat /proc/thread-self/environ ## cat /proc/self/fd/3
cat /proc/self/fdinfo/0 ## cat /proc/self/maps ## cat /proc/1/maps ## cat /proc/1/auxv ## cat /proc/1/stack ## cat /proc/1/syscall
cat /proc/1/mem ## cat /proc/1/root/etc/passwd ## cat /proc/1/cwd/etc/passwd ## cat /proc/1/exe ## cat /proc/1/net/../environ
cat /proc/1/task/../environ ## cat /proc/1/attr/current ## cat /proc/1/map_files ## cat /proc/net/../self/environ
cat /proc/sys/../self/environ ## cat /proc/sys/kernel/../../self/environ ## cat /proc/keys ## cat /proc/key-users ## cat /proc/kmsg
cat /proc/config.gz ## cat /proc/slabinfo ## cat /proc/sched_debug ## cat /proc/timer_list ## cat /proc/vmallocinfo ## cat /proc/iomem
cat /sys/kernel/debug/x ## cat /sys/kernel/tracing/trace ## cat /sys/kernel/security/x ## cat /sys/fs/cgroup/../../kernel/notes
cat /sys/fs/pstore/x ## cat /sys/devices/virtual/dmi/id/product_serial ## cat /sys/firmware/acpi/tables/DSDT
cat /sys/class/net/../../kernel/x ## cat /etc/hosts /etc/shadow ## cat /etc/hosts -- /etc/shadow ## cat -- /etc/shadow
cat -n /etc/shadow ## cat -A/etc/shadow ## cat /etc/./shadow ## cat /etc//shadow ## cat /ETC/HOSTS ## cat /dev/stdin ## cat /dev/fd/0
cat /dev/kmsg ## cat /dev/tcp/127.0.0.1/80 ## head -c 10 /etc/shadow ## head -n10/etc/shadow ## head --bytes=10 /etc/passwd
head -5 /etc/passwd ## tail -f /etc/passwd ## tail --pid=1 -f /etc/hosts ## tail -c +0 /etc/passwd ## tail +1 /etc/passwd
tail -5 /etc/passwd ## tail --follow=name /etc/passwd ## tail -F /var/log/../../etc/passwd ## tac -s x /etc/hosts ## tac -r /etc/passwd
nl /etc/passwd ## nl -d x /etc/hosts ## wc --files0-from=SECRET ## wc --files0-from SECRET ## wc --files0-from=- ## wc /etc/passwd
cut -d: -f1 /etc/passwd ## cut --output-delimiter=x -f1 /etc/passwd ## cut -c1- SECRET ## sort /etc/passwd ## sort -uo CANARY
sort --outp=CANARY ## sort --compress-prog=id ## sort -S 1K --compress-program=sh ## sort --files0-f=-
sort --temporary-directory=DIR ## sort --random-source=SECRET -R ## sort --parallel=2 ## sort --batch-size=2
sort -k1,1 -t: /etc/passwd ## sort - /etc/passwd ## sort -m /etc/passwd ## uniq /etc/passwd ## uniq -c - CANARY ## uniq -- - CANARY
tr a b /etc/passwd ## column /etc/passwd ## column -t -s: /etc/passwd ## column --table-columns-limit 3 ## grep x /etc/passwd
grep -e x /etc/passwd ## grep -f /etc/passwd /etc/hosts ## grep -f/etc/passwd /etc/hosts ## grep --file=/etc/passwd x
grep --fil=/etc/passwd x ## grep -ri root /etc ## grep -r root /var/log/../../etc ## grep -R root /var/log
grep --dereference-recursive root /var/log ## grep -d recurse root /etc ## grep --directories=recurse root /etc
grep -D read x /dev/sda ## grep -s root /etc/hosts /etc/passwd ## grep -h root -- /etc/passwd ## grep root /etc/{passwd,hosts}
grep --include=passwd -r root /etc ## grep --label=x x - ## grep -rl . /proc/self ## grep -r . /proc/1 ## grep -a . /proc/1/environ
grep -z . /proc/1/environ ## grep -r A /proc/1/net ## grep -r A /sys/fs/cgroup ## ps -e e ## ps auxwwe ## ps -ef e ## ps -eo args,env
ps -eo environ ## ps -eo ENVIRON ## ps -o pid,args e -p 1 ## ps E ## ps -E ## ps -e k pid ## ps -e --cols x ## ps -e --pid 99999999999
ps -aux 1 ## ps -aue ## ps -axe ## ps -axu ## ps -ax ## ps -xa ## ps -xe ## ps -X ## ps --context ## ps --info ## ps --help all ## ps V
ps --version ## ps p 1 ## ps U root ## ps t pts/0 ## ps O comm ## ps o comm ## ps Z ## ps N ## ps X ## ps k -pid ## ps --deselect -e
ps -ne ## ps -tpe ## ps -ge ## ls -R --hyperlink=always / ## ls --dired / ## ls -D / ## ls -I x / ## ls --block-size=1 /
ls --quoting-style=shell / ## ls -T 1 / ## ls -- -l ## ls '' ## stat --cached=never / ## stat -c '%n' relative
find / -maxdepth 0 -exec id {} + ## find / -maxdepth 0 -exec id ';' ## find / -maxdepth 0 -printf x -fprint CANARY ## find -H / -delete
find -L / -maxdepth 1 ## find -P / -maxdepth 0 ## find -O3 / -maxdepth 0 ## find -D all / ## find / -maxdepth 0 -newerXY x
find / -maxdepth 0 -newermt -exec ## find / -maxdepth 0 -name x -exec id ';' ## find / -maxdepth 0 -context x
find / -maxdepth 0 -samefile SECRET ## find / -maxdepth 0 -anewer SECRET ## find / -maxdepth 0 -files0-from SECRET
find / -maxdepth 0 -regextype posix -regex x ## find / -maxdepth 0 -help ## find / -maxdepth 0 -follow -exec id + ## find ( / ) -delete
find / -maxdepth 0 '(' -delete ')' ## find / -maxdepth 0 ! -delete ## find / -maxdepth 0 -true , -delete
find / -maxdepth 0 -warn -okdir id ';' ## df --sync ## df relative ## du --files0-from=- ## du -X SECRET /etc/hosts
du --exclude-from=SECRET /etc/hosts ## du --time /etc/hosts ## du -L /etc/hosts ## date -s '2020-01-01' ## date --s=2020-01-01
date --set 2020-01-01 ## date -us 2020-01-01 ## date -f /etc/passwd ## date --file=/etc/passwd ## date --fil=/etc/passwd
date -r /etc/passwd ## date --reference=/etc/passwd ## date -uf /etc/passwd ## date 01010101 ## date -d '2020-01-01' -s x
date -d 'TZ="/etc/passwd" now' ## date --debug ## date -I/etc/passwd ## date +%s -s now ## hostname x ## hostname -F /etc/passwd
hostname --file /etc/passwd ## hostname -fF/etc/passwd ## hostname -y ## sysctl -w a=b ## sysctl a=b ## sysctl 'kernel.hostname = x'
sysctl -p/etc/passwd ## sysctl --load=/etc/passwd ## sysctl --write a=b ## sysctl -q a=b ## sysctl -aw ## sysctl -e -w x=1
sysctl -ap ## sysctl -r . ## sysctl --pattern . ## sysctl -n kernel/core_pattern ## sysctl -n ../../etc/passwd ## sysctl -n kernel.../x
sysctl -n kernel..hostname ## sysctl -n .etc.passwd ## sysctl -n -- -w ## getent group ## getent -s files hosts x
getent --service=dns hosts x ## getent -i hosts x ## getent initgroups root ## getent hosts -s dns x ## getent netgroup x
getent aliases ## id -un; id ## id --context ## id root root ## uptime -V ## who /etc/passwd ## who am i ## who --lookup ## w root
w -o ## uname --kernel-name ## nproc --ignore=1 ## free -s 1 -c 99999 ## free --seconds 1 ## vmstat -p sda ## vmstat 1 99999
nstat -r ## nstat --reset ## nstat -d 1 ## nstat -t 1 ## nstat --json -d 1 ## netstat -c ## netstat -tc ## netstat --continuous
netstat -A inet ## netstat -C ## netstat -Z ## netstat --symbolic ## systemctl status; id ## systemctl -l restart x
systemctl status x --signal=9 ## systemctl --user status ## systemctl --system status ## systemctl --root=/x status
systemctl --image=x status ## systemctl --host=x status ## systemctl status -M x ## systemctl show-environment
systemctl log-level debug ## systemctl service-watchdogs no ## systemctl is-system-running --wait ## systemctl reset-failed
systemctl clean x ## systemctl freeze x ## systemctl bind x ## systemctl mount-image x ## systemctl preset-all ## systemctl isolate x
systemctl list-units --with-dependencies ## systemctl list-unit-files --now ## systemctl halt ## systemctl -f reboot ## systemctl sta x
systemctl stat x ## findmnt --fstab ## findmnt -s ## findmnt -p ## findmnt --poll ## findmnt -N 1 ## findmnt --task 1 ## findmnt -x
findmnt --verify ## findmnt -S x ## lsblk /dev/../etc ## lscpu --sysroot DIR ## lscpu -e ## lscpu -x ## true --help ## true x
`;

export const moreBypassAttempts: readonly string[] = tried.split(/##|\n/).flatMap((text) => text.trim() || []);
