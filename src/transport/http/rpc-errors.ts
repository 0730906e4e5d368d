/** Converts CoralErrors to Connect errors and back, so that errors keep their code and message across daemons. */

import type { JsonObject } from "@bufbuild/protobuf";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { CoralError, type ErrorCode, isErrorCode } from "../../base/errors.ts";
import { ErrorDetailSchema } from "../../proto/coral/agent/v1/commands_pb.ts";
import { jsonValue } from "./http-handler.ts";

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

/** Keeps code and message; details are dropped. The stack is never sent. */
export function toConnectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  const coral = CoralError.from(error);
  return new ConnectError(coral.message, rpcCodes[coral.code], undefined, undefined, error);
}

/** Like toConnectError, with all details, so that reviveConnectError can restore the error at a client of CommandService. */
export function toDetailedConnectError(error: CoralError): ConnectError {
  const { code, message, details } = error;
  const value = { code, details: JSON.parse(JSON.stringify(details, jsonValue)) as JsonObject };
  return new ConnectError(message, rpcCodes[code], undefined, [{ desc: ErrorDetailSchema, value }], error);
}

/** The error that a daemon sent with toDetailedConnectError; undefined when the call failed for another reason, such as a lost connection. */
export function reviveConnectError(error: unknown): CoralError | undefined {
  if (!(error instanceof ConnectError)) return undefined;
  const [detail] = error.findDetails(ErrorDetailSchema);
  if (!detail || !isErrorCode(detail.code)) return undefined;
  return new CoralError({ code: detail.code, message: error.rawMessage, details: detail.details ?? {}, cause: error });
}

/** Characters. Messages of peers are logged and stored; longer ones are truncated. */
const maxMessageLength = 1_000;

/** The CoralError for an error thrown by a call to another daemon. */
export function fromConnectError(error: unknown): CoralError {
  if (error instanceof CoralError) return error;
  const connect = ConnectError.from(error);
  return new CoralError({ code: errorCodes[connect.code], message: connect.rawMessage.slice(0, maxMessageLength), cause: error });
}

/** For servers: converts errors of handlers with `toWire`, also in the middle of a stream. */
export function errorsOnWire(toWire: (error: unknown) => unknown): Interceptor {
  return (next) => async (request) => {
    try {
      const response = await next(request);
      return response.stream ? { ...response, message: translated(response.message, toWire) } : response;
    } catch (error) {
      throw toWire(error);
    }
  };
}

/** CoralErrors keep their code and message; Connect hides anything else from the caller as an internal error. */
export const coralErrorsOnWire: Interceptor = errorsOnWire((error) => (error instanceof CoralError ? toConnectError(error) : error));

async function* translated<T>(messages: AsyncIterable<T>, toWire: (error: unknown) => unknown): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (error) {
    throw toWire(error);
  }
}
