/** Detects a peer that vanished silently (partition, power cut), with HTTP/2 pings after silence. */

import type { Http2Session } from "node:http2";

export interface KeepAliveOptions {
  /** Silence after which a ping is sent. */
  intervalMs: number;
  /** Timeout of its reply. */
  timeoutMs: number;
  onDead: (silentMs: number) => void;
}

/** Stops with its session. */
export interface KeepAlive {
  /** Call when bytes arrive from the peer. */
  touch(): void;
  stop(): void;
}

/** TCP itself reports a lost peer only after minutes, and only if there is unacknowledged data. */
export function startKeepAlive(session: Http2Session, options: KeepAliveOptions): KeepAlive {
  let heardAtMs = performance.now();
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  const wait = (delayMs: number, next: () => void): void => {
    if (stopped) return;
    timer = setTimeout(next, delayMs);
    timer.unref();
  };
  const onInterval = (): void => {
    // A destroyed session emits "close" later, and throws on ping() until then.
    if (session.destroyed) return;
    const silentMs = performance.now() - heardAtMs;
    // Re-arming at each reply would cost a timer per message; this costs one per interval.
    if (silentMs < options.intervalMs - 1) {
      wait(options.intervalMs - silentMs, onInterval);
      return;
    }
    const pingedAtMs = performance.now();
    const bytesAtPing = receivedBytes(session);
    wait(options.timeoutMs, () => {
      // After a stall of this process the reply may be unread: timers run before sockets, so wait until sockets were read.
      setImmediate(() => {
        if (stopped) return;
        // Any received byte counts: a ping may be queued behind a large reply, possibly one that was cancelled.
        if (receivedBytes(session) > bytesAtPing) heardAtMs = performance.now();
        if (heardAtMs < pingedAtMs) options.onDead(performance.now() - heardAtMs);
        else if (timer === deadline) wait(options.intervalMs, onInterval);
      });
    });
    const deadline = timer;
    session.ping((error) => {
      // A destroyed session cancels its pings; its owner gets "close".
      if (error) return;
      heardAtMs = performance.now();
      clearTimeout(timer);
      wait(options.intervalMs, onInterval);
    });
  };
  const stop = (): void => {
    stopped = true;
    clearTimeout(timer);
  };
  wait(options.intervalMs, onInterval);
  session.once("close", stop);
  return {
    touch: () => {
      heardAtMs = performance.now();
    },
    stop,
  };
}

function receivedBytes({ destroyed, socket }: Http2Session): number {
  return destroyed ? 0 : socket.bytesRead;
}
