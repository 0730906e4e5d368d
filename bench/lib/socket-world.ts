/** A host full of sockets: processes that listen, connect to each other and hold open files. Ends with the scope. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Numbers of the whole world. */
export interface WorldSizes {
  processes: number;
  /** Listening and established TCP sockets of all processes; each connection has two. */
  sockets: number;
  /** Open files of all processes, sockets included. */
  descriptors: number;
}

/** Forks are cheap: one interpreter is started, and every process shares its memory. Ends with its standard input. */
const script = `
use strict; use Socket;
my ($directory, $processes, $sockets, $descriptors) = @ARGV;
my @calls = map { int(($sockets - $processes) / 2 * ($_ + 1) / $processes) - int(($sockets - $processes) / 2 * $_ / $processes) } 0 .. $processes - 1;
my @answers = (0) x $processes;
$answers[($_ + 7) % $processes] = $calls[$_] for 0 .. $processes - 1;
pipe(my $tell, my $told) or die; pipe(my $go, my $start) or die;
my @pids;
for my $index (0 .. $processes - 1) {
  my $pid = fork(); die "fork: $!" unless defined $pid;
  if ($pid) { push @pids, $pid; next; }
  close $tell; close $start; close STDIN; open(STDIN, "<", "/dev/null");
  socket(my $listener, PF_INET, SOCK_STREAM, 0) or die; bind($listener, sockaddr_in(0, INADDR_LOOPBACK)) or die; listen($listener, 128) or die;
  my ($port) = sockaddr_in(getsockname($listener));
  syswrite($told, "$index $port\\n"); 
  sysread($go, my $byte, 1);
  open(my $file, "<", "$directory/ports") or die; my @ports = map { chomp; $_ } <$file>; close $file;
  my @kept = ($listener);
  for (1 .. $calls[$index]) {
    socket(my $call, PF_INET, SOCK_STREAM, 0) or die; connect($call, sockaddr_in($ports[($index + 7) % $processes], INADDR_LOOPBACK)) or die; push @kept, $call;
  }
  for (1 .. $answers[$index]) { accept(my $answer, $listener) or die; push @kept, $answer; }
  my $files = int($descriptors / $processes) - @kept - 5;
  for (1 .. $files) { open(my $null, "<", "/dev/null") or die; push @kept, $null; }
  syswrite($told, "ready\\n");
  sleep 3600 while 1;
}
close $told; close $go;
my (@ports, $ready); $ready = 0;
while (<$tell>) {
  if (/^(\\d+) (\\d+)$/) {
    $ports[$1] = $2;
    next if grep { !defined } @ports[0 .. $processes - 1];
    open(my $file, ">", "$directory/ports") or die; print $file "$_\\n" for @ports; close $file;
    syswrite($start, "." x $processes);
  } elsif (++$ready == $processes) { last; }
}
$| = 1; print "ready\\n";
my $end = <STDIN>;
kill 9, @pids;
`;

/** Processes with open sockets on this host, for scans to find. */
export class SocketWorld implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #directory: string;

  private constructor(child: ChildProcess, directory: string) {
    this.#child = child;
    this.#directory = directory;
  }

  /** Resolves when every process has all of its sockets and files. */
  static async create({ processes, sockets, descriptors }: WorldSizes): Promise<SocketWorld> {
    const directory = mkdtempSync(join(tmpdir(), "coral-world-"));
    const file = join(directory, "world.pl");
    writeFileSync(file, script);
    const child = spawn("perl", [file, directory, String(processes), String(sockets), String(descriptors)], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const world = new SocketWorld(child, directory);
    try {
      const outcome = await Promise.race([once(child.stdout, "data"), once(child, "exit")]);
      if (String(outcome[0]) !== "ready\n") throw new Error("Cannot start the processes: perl exited early");
      return world;
    } catch (error) {
      await world[Symbol.asyncDispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = once(this.#child, "exit");
      this.#child.stdin?.end("\n");
      await ended;
    }
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
