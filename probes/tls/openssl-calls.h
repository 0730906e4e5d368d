/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls of OpenSSL and its relatives: SSL_read() and SSL_write(), plain and _ex. A call is noted when it begins and has its plaintext when it ends;
 * once the connection of its object is known, a write is read when it begins and a read without the note.
 */
#ifndef CORAL_TLS_OPENSSL_CALLS_H
#define CORAL_TLS_OPENSSL_CALLS_H

#include "tls/ssl-object.h"

/* The context of uprobes as programs see it, which never changes. With pt_regs, whose places are looked up, the compiler makes addresses that the verifier refuses. */
struct call_registers {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, number, ip, cs, flags, sp, ss;
};

/* Notes a call that begins for when it ends. 0: there is no room. */
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

/* The end of a call, or its return: the result is in its register. */
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
		/* Whatever arrived held no plaintext: part of a handshake, a ticket. The next request begins with what comes next. */
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
	/* Of what was received, the arrival at the socket counts; of what is sent, the call. */
	if ((what & TLS_OPERATION) == TLS_WRITE) {
		payload->direction = SENT;
		payload->start_ns = thread->start_ns;
		if (connection->side == SIDE_CONNECTED)
			connection->arrival_ns = 0;
	}
	payload->sk = sk;
}

/* For a payload whose connection is known. 0: it has to go the way of all others. */
static always_inline int tls_handles(struct payload *payload, struct connection *connection)
{
	take_stamp(payload, connection);
	return connection->protocol == PROTOCOL_IGNORED || http1_fast_path(payload, connection);
}

/* 1 where hooks-socket.h tells when an answer was sent, so that no clock need be read before. */
const volatile u32 has_socket_hooks = 0;

/* RFC 8446, 5.1: most that a record holds. Of a longer write a library may take as much and leave the rest to the next one. */
#define MAX_RECORD_PLAINTEXT 16384

/*
 * How many bytes of a write that begins were read already: of one before that found no room and is called again, or that took a part. A server that keeps
 * records itself until there is room (Apache) goes on with others; they are elsewhere.
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

/* 1: it is the head of an answer, and the time is left to tls_record_sent(). */
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

/* A write of an object whose socket is known is read when it begins. 1: its return is wanted, since it may take less than all. */
static always_inline int tls_write_begins(const struct call_registers *context, u32 what, struct connection *connection,
					  struct payload *payload)
{
	/* SSL_write() takes an int. */
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

/* A number of bytes that a function of OpenSSL returned, or has put where its caller wanted it; 0: none. */
static always_inline u32 tls_count_returned(const struct call_registers *context, const struct connection *connection)
{
	s32 result = context->ax;
	u64 count = 0;

	if (result <= 0 || !connection->tls_count_at)
		return result < 0 ? 0 : result;
	bpf_probe_read_user(&count, sizeof(count), (void *)connection->tls_count_at);
	return count > 0x7fffffff ? 0 : count;
}

/* A write returns. What it did not take comes with the next one, wherever that has it; if it took nothing, it is called again. */
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
	/* Of a server's HTTP/1, until its next answer: what goes to such a reader finds no room again and again. */
	if (taken >= written && (connection->protocol != PROTOCOL_HTTP || connection->role != ROLE_SERVER))
		connection->tls_was_full = 0;
}

extern _Bool bpf_session_is_return(void) __attribute__((section(".ksyms"), weak));
extern u64 *bpf_session_cookie(void) __attribute__((section(".ksyms"), weak));

/* In the session's cookie, with the address of a socket: the call is a write. */
#define COOKIE_WRITE 1

/* The begin of a call. 1: its return is not wanted; else the session's cookie tells it the socket, if that is known. */
static always_inline int tls_call_begins(const struct call_registers *context, u32 what)
{
	struct payload payload = { .flags = PAYLOAD_TLS, .tgid = bpf_get_current_task_btf()->tgid };
	u64 sk = 0;
	struct connection *connection = tls_bound_connection(context->di, payload.tgid, &sk);

	/* During a handshake a write takes nothing, and is called again after it; so until the first plaintext, only the return tells what was written. */
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

/* A read of an object whose socket is known returns. */
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
	payload.tgid = bpf_get_current_pid_tgid() >> 32;
	payload.length = tls_count_returned(context, connection);
	if (!payload.length)
		return;
	payload.buffer = connection->tls_buffer;
	payload.first_bytes = payload.length;
	payload.direction = RECEIVED;
	/* When its records were read. */
	payload.at_ns = tcp_time((struct sock *)sk);
	if (!tls_handles(&payload, connection))
		on_data(&payload);
}

#endif
