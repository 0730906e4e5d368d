import { MessageChannel, type MessagePort } from "node:worker_threads";

/** Smaller buffers are left to the garbage collector: freeing them one by one costs more than it saves. */
const worthwhileBytes = 16 * 1024;

/** Has no receiver: what is transferred to it is freed. */
let nowhere: MessagePort | undefined;

/**
 * Frees the memory of bytes at once. V8 counts buffers towards its heap and runs full collections when many come and go, which costs more
 * than processing them. Afterwards the bytes are empty and must not be used. Views of shared memory are kept.
 */
export function releaseBytes(bytes: Uint8Array): void {
  if (bytes.byteLength === bytes.buffer.byteLength) releaseBuffer(bytes.buffer);
}

/** Frees a buffer that has no other user, even if the bytes cover only a part of it. */
export function releaseBuffer(buffer: ArrayBufferLike): void {
  if (buffer.byteLength >= worthwhileBytes && buffer instanceof ArrayBuffer) releaseBuffers([buffer]);
}

/** Frees many buffers at once, of any size. Each may be listed only once. */
export function releaseBuffers(buffers: readonly ArrayBuffer[]): void {
  nowhere ??= openNowhere();
  // A buffer transferred to a port without a receiver is freed.
  nowhere.postMessage(undefined, buffers);
}

function openNowhere(): MessagePort {
  const { port1, port2 } = new MessageChannel();
  port2.close();
  port1.close();
  return port1;
}
