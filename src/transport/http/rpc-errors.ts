/** CoralError on the RPC wire and back, so that a failure keeps its code and message across daemons. */

import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { CoralError, type ErrorCode } from "../../base/errors.ts";

const rpcCodes: Record<ErrorCode, Code> = {
  usage: Code.InvalidArgument,
  invalid: Code.InvalidArgument,
  "not-found": Code.NotFound,
  "already-exists": Code.AlreadyExists,
  unauthenticated: Code.Unauthenticated,
  "not-permitted": Code.PermissionDenied,
  unsupported: Code.Unimplemented,
  unavailable: Code.Unavailable,
  timeout: Code.DeadlineExceeded,
  cancelled: Code.Canceled,
  exhausted: Code.ResourceExhausted,
  corrupt: Code.DataLoss,
  internal: Code.Internal,
};

const errorCodes: Record<Code, ErrorCode> = {
  [Code.InvalidArgument]: "invalid",
  [Code.OutOfRange]: "invalid",
  [Code.FailedPrecondition]: "invalid",
  [Code.NotFound]: "not-found",
  [Code.AlreadyExists]: "already-exists",
  [Code.Unauthenticated]: "unauthenticated",
  [Code.PermissionDenied]: "not-permitted",
  [Code.Unimplemented]: "unsupported",
  [Code.Unavailable]: "unavailable",
  [Code.Aborted]: "unavailable",
  [Code.DeadlineExceeded]: "timeout",
  [Code.Canceled]: "cancelled",
  [Code.ResourceExhausted]: "exhausted",
  [Code.DataLoss]: "corrupt",
  [Code.Internal]: "internal",
  [Code.Unknown]: "internal",
};

export function toConnectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  const coral = CoralError.from(error);
  return new ConnectError(coral.message, rpcCodes[coral.code], undefined, undefined, error);
}

/** A peer's words end up in logs and states: longer ones are cut. */
const maxMessageLength = 1_000;

/** For clients of ConnectRouter services: what a call threw, as CoralError. */
export function fromConnectError(error: unknown): CoralError {
  if (error instanceof CoralError) return error;
  const connect = ConnectError.from(error);
  return new CoralError({ code: errorCodes[connect.code], message: connect.rawMessage.slice(0, maxMessageLength), cause: error });
}

/** On a server: a CoralError thrown by a handler keeps its code; anything else stays hidden from the caller as an internal error. */
export const coralErrorsOnWire: Interceptor = (next) => async (request) => {
  try {
    return await next(request);
  } catch (error) {
    throw error instanceof CoralError ? toConnectError(error) : error;
  }
};
