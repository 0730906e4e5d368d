/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls of OpenSSL and its forks: SSL_read(), SSL_write() and their _ex variants. Part of requests.bpf.c.
 *
 * Plaintext is read when a call returns, with the arguments noted when it began. Once the object is bound to a connection, a write is read
 * when it begins, and a read keeps its arguments in the connection.
 */
#ifndef CORAL_TLS_OPENSSL_CALLS_H
#define CORAL_TLS_OPENSSL_CALLS_H

#include "tls/ssl-object.h"

/*
 * The context of a uprobe; this layout is ABI. With struct pt_regs, whose offsets CO-RE relocates, clang generates context accesses that
 * the verifier rejects.
 */
struct call_registers {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, number, ip, cs, flags, sp, ss;
};

/* Notes the arguments of a call for its return. 0: no memory. */
static always_inline int tls_note_call(const struct call_registers *context, u32 what)
{
	struct tls_thread *thread = bpf_task_storage_get(&tls_threads, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!thread)
		return 0;
	thread->operation = what;
	thread->object = context->di;
	thread->buffer = context->si;
	thread->count_at = context->cx;
	thread->call_sk = 0;
	thread->start_ns = bpf_ktime_get_ns();
	return 1;
}

/* At the return of a call, or at an instruction before it: the result is in ax. */
static always_inline void tls_call_ends(struct pt_regs *context, struct payload *payload)
{
	struct tls_thread *thread = bpf_task_storage_get(&tls_threads, bpf_get_current_task_btf(), 0, 0);
	struct connection *connection;
	s32 result = context->ax;
	u64 sk = 0;
	u32 what;

	if (!thread || !thread->operation)
		return;
	what = thread->operation;
	thread->operation = 0;
	connection = tls_connection_of(thread, thread->object, thread->call_sk, payload->tgid, &sk);
	if (!connection)
		return;
	if (result <= 0) {
		/*
		 * The received records had no plaintext: part of a handshake, a session ticket. The next request starts with the bytes after them.
		 */
		if ((what & TLS_OPERATION) == TLS_READ)
			connection->arrival_ns = 0;
		return;
	}
	if (what & TLS_COUNT_BY_POINTER) {
		u64 count = 0;

		bpf_probe_read_user(&count, sizeof(count), (void *)thread->count_at);
		result = count > 0x7fffffff ? 0 : count;
	}
	payload->buffer = thread->buffer;
	payload->length = result;
	/* A received request starts when it arrived at the socket; a sent one starts with the call. */
	if ((what & TLS_OPERATION) == TLS_WRITE) {
		payload->direction = SENT;
		payload->start_ns = thread->start_ns;
		if (connection->side == SIDE_CONNECTED)
			connection->arrival_ns = 0;
	}
	payload->sk = sk;
}

/* For a payload whose connection is known. 0: the caller must pass it to on_data(). */
static always_inline int tls_handles(struct payload *payload, struct connection *connection)
{
	take_stamp(payload, connection);
	return connection->protocol == PROTOCOL_IGNORED || http1_fast_path(payload, connection);
}

/* RFC 8446, 5.1: most plaintext in a record. A library may accept this much of a longer write and leave the rest to the next one. */
#define MAX_RECORD_PLAINTEXT 16384

/*
 * How many bytes of this write were read at an earlier one, which failed for lack of buffer space or was accepted in part. A server that
 * buffers records itself (Apache) continues with other bytes, at another address.
 */
static always_inline u32 tls_read_ahead(const struct call_registers *context, const struct connection *connection)
{
	u32 before = connection->tls_written;

	if (likely(!(before & TLS_SEND_FAILED)))
		return 0;
	if (connection->protocol == PROTOCOL_HTTP && connection->request_left && connection->request_left != (u32)context->si)
		return 0;
	return before & ~TLS_SEND_FAILED;
}

/* 1: the payload is the head of a response, and tls_record_sent() will stamp it. */
static always_inline int tls_on_written(struct connection *connection, struct payload *payload)
{
	if (has_socket_hooks && is_tls_settled(connection) && connection->role == ROLE_SERVER && payload->length > MAX_ALERT_BYTES) {
		payload->at_ns = UNSENT;
		if (http1_may_take_fast_path(payload, connection) && http1_fast_response(payload, connection))
			return 1;
	}
	payload->at_ns = bpf_ktime_get_ns();
	payload->start_ns = payload->at_ns;
	if (connection->side == SIDE_CONNECTED)
		connection->arrival_ns = 0;
	if (!tls_handles(payload, connection))
		on_data(payload);
	return 0;
}

/* Reads a write of a bound object when it begins. 1: the return is needed as well, because the write may be accepted only in part. */
static always_inline int tls_write_begins(const struct call_registers *context, u32 what, struct connection *connection,
					  struct payload *payload)
{
	/* The length of SSL_write() is an int. */
	u64 length = what & TLS_COUNT_BY_POINTER ? context->dx : (u32)context->dx;
	u32 ahead = tls_read_ahead(context, connection);

	if (!length || length > 0x7fffffff)
		return 0;
	connection->tls_written = length > ahead ? length : ahead;
	if (length > ahead) {
		payload->buffer = context->si + ahead;
		payload->length = length - ahead;
		payload->first_bytes = payload->length;
		payload->direction = SENT;
		if (tls_on_written(connection, payload) && unlikely(connection->tls_was_full))
			connection->tls_was_full = 0;
	}
	if (connection->protocol == PROTOCOL_HTTP)
		connection->request_left = context->si;
	return connection->tls_was_full || length > MAX_RECORD_PLAINTEXT;
}

/* The byte count that a call returned, or stored where its caller asked for it; 0: none. */
static always_inline u32 tls_count_returned(const struct call_registers *context, const struct connection *connection)
{
	s32 result = context->ax;
	u64 count = 0;

	if (result <= 0 || !connection->tls_count_at)
		return result < 0 ? 0 : result;
	bpf_probe_read_user(&count, sizeof(count), (void *)connection->tls_count_at);
	return count > 0x7fffffff ? 0 : count;
}

/*
 * At the return of a write. What it did not accept is passed again to the next write, possibly at another address; all of it, if it
 * accepted nothing.
 */
static always_inline void tls_write_returns(const struct call_registers *context, u64 sk)
{
	struct connection *connection = find_connection(sk);
	u32 taken = connection ? tls_count_returned(context, connection) : 0;
	u32 written;

	if (!connection)
		return;
	written = connection->tls_written & ~TLS_SEND_FAILED;
	connection->tls_written = taken < written ? (written - taken) | TLS_SEND_FAILED : 0;
	if (connection->protocol == PROTOCOL_HTTP)
		connection->request_left = 0;
	/*
	 * For HTTP/1 servers the flag stays set until the next response: writes to a slow reader run out of buffer space again and again.
	 */
	if (taken >= written && (connection->protocol != PROTOCOL_HTTP || connection->role != ROLE_SERVER))
		connection->tls_was_full = 0;
}

extern _Bool bpf_session_is_return(void) __attribute__((section(".ksyms"), weak));
extern u64 *bpf_session_cookie(void) __attribute__((section(".ksyms"), weak));

/* Bit 0 of the session's cookie, which holds the address of a socket: the call is a write. */
#define COOKIE_WRITE 1

/* At the start of a call. 1: the return is not needed. Else the session's cookie carries the socket to the return, if it is known. */
static always_inline int tls_call_begins(const struct call_registers *context, u32 what)
{
	struct payload payload = { .flags = PAYLOAD_TLS, .tgid = current_process_of(bpf_get_current_task_btf()) };
	struct connection *connection;
	u64 sk = 0;

	if (is_out_of_scope(payload.tgid))
		return 1;
	connection = tls_bound_connection(context->di, payload.tgid, &sk);
	/*
	 * During a handshake a write accepts nothing and is repeated later. So until the first plaintext, only returns show what was
	 * written.
	 */
	if (connection && ((what & TLS_OPERATION) != TLS_WRITE || connection->protocol != PROTOCOL_UNKNOWN)) {
		payload.sk = sk;
		if ((what & TLS_OPERATION) == TLS_WRITE) {
			if (likely(!tls_write_begins(context, what, connection, &payload)))
				return 1;
			sk |= COOKIE_WRITE;
		} else {
			connection->tls_buffer = context->si;
		}
		connection->tls_count_at = what & TLS_COUNT_BY_POINTER ? context->cx : 0;
		*bpf_session_cookie() = sk;
		return 0;
	}
	*bpf_session_cookie() = 0;
	return !tls_note_call(context, what);
}

/* At the return of a read of a bound object. */
static always_inline void tls_read_returns(const struct call_registers *context, u64 sk)
{
	struct payload payload = { .flags = PAYLOAD_TLS, .sk = sk };
	struct connection *connection = find_connection(sk);

	if (!connection)
		return;
	if ((s32)context->ax <= 0) {
		connection->arrival_ns = 0;
		return;
	}
	payload.tgid = current_process();
	payload.length = tls_count_returned(context, connection);
	if (!payload.length)
		return;
	payload.buffer = connection->tls_buffer;
	payload.first_bytes = payload.length;
	payload.direction = RECEIVED;
	/* The time at which the records were read from the socket. */
	payload.at_ns = tcp_time((struct sock *)sk);
	if (!tls_handles(&payload, connection))
		on_data(&payload);
}

#endif
