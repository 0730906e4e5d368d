/** Programs that start other programs or read scripts: permission for one of them is permission for anything. */

const names = new Set(
  `sh bash rbash dash ash zsh ksh ksh93 mksh oksh lksh fish csh tcsh rc es elvish nu pwsh busybox toybox
   python pypy perl ruby node nodejs deno bun php lua luajit tclsh wish expect guile racket ghci erl escript iex elixir julia R Rscript java jshell scala groovy kotlin
   awk gawk mawk nawk sed gsed bc dc jq m4 make gmake cmake ninja gcc cc tcc go cargo npm npx yarn pnpm
   vi vim vim.basic vim.tiny nvim view rvim vimdiff ex ed nano pico emacs emacsclient joe mcedit micro
   less more most pg man info pager lesspipe w3m lynx links elinks
   env xargs parallel nice nohup timeout watch time setsid setpriv setarch linux32 linux64 stdbuf unbuffer script scriptreplay screen tmux dtach flock ionice taskset chrt numactl prlimit
   chroot unshare nsenter capsh sudo su doas pkexec runuser start-stop-daemon systemd-run systemd-nspawn machinectl run0 at batch crontab run-parts find fd locate
   ssh scp sftp rsync ftp telnet nc ncat netcat socat openssl wget aria2c tftp
   tar bsdtar cpio zip unzip 7z ar rpm dpkg apt apt-get yum dnf apk pip gem git hg svn
   gdb lldb ltrace perf bpftrace stap valgrind rr ld.so
   docker podman nerdctl ctr crictl runc crun kubectl helm virsh lxc-attach lxc qemu
   mysql psql sqlite3 redis-cli mongo mongosh
   tee dd cp mv ln install chmod chown rm shred mount umount insmod modprobe kexec tcpkill ip-netns`
    .split(/\s+/)
    .filter((name) => name !== ""),
);

/** Ignores version numbers: `python3.11`, `perl5.36`, `ld-linux-x86-64.so.2`. */
export function isLauncher(name: string): boolean {
  return (
    names.has(name) ||
    names.has(name.replace(/[\d.-]+$/, "")) ||
    /^(?:ld-(?:linux|musl|\d)|python|perl|ruby|node|php|lua|vim|ksh|tclsh)/.test(name)
  );
}
