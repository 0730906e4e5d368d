import { MessageChannel, type MessagePort } from "node:worker_threads";

/** Smaller ones are left to the collector: letting go of them one by one costs more than they weigh. */
const worthwhileBytes = 16 * 1024;

/** Nobody is at its other end. */
let nowhere: MessagePort | undefined;

/**
 * Gives the memory of bytes back at once. V8 counts buffers towards its heap and collects all of it when many of them come and go, which costs more than
 * whatever was in them. Nobody may use the bytes afterwards: they are empty then. Bytes that share their memory with others are left alone.
 */
export function releaseBytes(bytes: Uint8Array): void {
  if (bytes.byteLength === bytes.buffer.byteLength) releaseBuffer(bytes.buffer);
}

/** The same for memory that is known to be used by nobody else, whatever part of it was. */
export function releaseBuffer(buffer: ArrayBufferLike): void {
  if (buffer.byteLength >= worthwhileBytes && buffer instanceof ArrayBuffer) releaseBuffers([buffer]);
}

/** The same for many at once, whatever their size; none may be named twice. */
export function releaseBuffers(buffers: readonly ArrayBuffer[]): void {
  nowhere ??= openNowhere();
  // What is transferred to nobody is freed.
  nowhere.postMessage(undefined, buffers);
}

function openNowhere(): MessagePort {
  const { port1, port2 } = new MessageChannel();
  port2.close();
  port1.close();
  return port1;
}
