/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The fast path of HTTP/1 at sockets, which most payloads take: a request that repeats the previous one on its connection, or the head of a
 * response, passed with a plain read or write. Part of requests.bpf.c.
 *
 * Each function returns 0 if the payload is neither; then nothing has changed, and it goes to on_payload(). The checks are those of
 * http1_fast_path(), in fewer instructions: a service with an empty reply notices each one.
 */
#ifndef CORAL_PROTOCOL_HTTP1_SOCKET_H
#define CORAL_PROTOCOL_HTTP1_SOCKET_H

#include "requests/sent-bytes.h"

/* Connections with these flags are not on the fast path. */
#define SLOW_PATH_FLAGS (CONNECTION_TLS | CONNECTION_STREAMED)
#define STATE_WORD(length, protocol, role, flags, prefix) \
	((u64)(length) | (u64)(protocol) << 32 | (u64)(role) << 40 | (u64)(flags) << 48 | (u64)(prefix) << 56)

/* head_payload_bytes, protocol, role, flags and prefix_bytes of a connection in one load; see STATE_WORD. */
static always_inline u64 state_word(const struct connection *connection)
{
	return *(const u64 *)&connection->head_payload_bytes;
}

static always_inline int may_repeat_request(u64 word, u32 role, u32 length)
{
	return (word & STATE_WORD(0xffffffffU, 0xff, 0xff, SLOW_PATH_FLAGS | CONNECTION_REPEATABLE, 0xff)) ==
	       STATE_WORD(length, PROTOCOL_HTTP, role, CONNECTION_REPEATABLE, 0);
}

static always_inline int may_be_response(u64 word, u32 role)
{
	return (word & STATE_WORD(0, 0xff, 0xff, SLOW_PATH_FLAGS, 0)) == STATE_WORD(0, PROTOCOL_HTTP, role, 0, 0);
}

/* The buffer of a plain read; 0: another system call. */
static always_inline u64 plain_read_buffer(struct task_struct *task)
{
	struct pt_regs *registers = registers_of(task);
	u32 number = SYSCALL_NUMBER(registers);

	return likely((number == NR_RECVFROM || number == NR_READ) && SYSCALL_IS_RUNNING(registers)) ? SYSCALL_BUFFER(registers) : 0;
}

/* A server has read a request. */
static always_inline int http1_request_read(struct sock *sk, struct connection *connection, u32 length)
{
	struct tcp_sock *tcp = kernel_cast(struct tcp_sock, sk);
	struct task_struct *task = bpf_get_current_task_btf();
	struct payload payload;
	u64 buffer = plain_read_buffer(task);

	if (unlikely(!buffer || connection->state == STATE_PENDING || connection->arrival_ns || length < connection->head_bytes ||
		     connection->head_generation != generation_now() || is_capturing()))
		return 0;
	if (unlikely(!http1_repeats_head(connection, buffer)))
		return 0;
	payload.tgid = current_process_of(task);
	if (is_out_of_scope(payload.tgid))
		return 0;
	payload.at_ns = tcp->tcp_clock_cache;
	payload.start_ns = has_ready_stamp(connection, tcp->copied_seq - length) ? connection->ready_ns : 0;
	payload.length = length;
	http1_repeat_request(&payload, connection);
	return 1;
}

/* A client has read a response. */
static always_inline int http1_response_read(struct connection *connection, u32 length)
{
	struct payload payload;
	u64 buffer;
	u32 status;

	if (unlikely(!http1_may_respond(connection, length) || is_capturing()))
		return 0;
	buffer = plain_read_buffer(bpf_get_current_task_btf());
	status = likely(buffer) ? http1_status_at(buffer) : 0;
	if (unlikely(!status))
		return 0;
	/* The client gets the bytes when the read ends, 0.5 us after TCP's clock: visible in a response time of 20 us. */
	payload.at_ns = bpf_ktime_get_ns();
	payload.length = length;
	http1_begin_response(&payload, connection, status);
	return 1;
}

static always_inline int http1_received(struct sock *sk, struct connection *connection, u32 length)
{
	u64 word = state_word(connection);

	if (may_repeat_request(word, ROLE_SERVER, length))
		return http1_request_read(sk, connection, length);
	if (may_be_response(word, ROLE_CLIENT))
		return http1_response_read(connection, length);
	return 0;
}

/* A server has sent a response. */
static always_inline int http1_response_sent(struct sock *sk, struct connection *connection, u32 length)
{
	struct timespec64 *words;
	struct payload payload;
	u64 bytes;
	u32 status;

	if (unlikely(!http1_may_respond(connection, length) || is_capturing()))
		return 0;
	bytes = sent_bytes(bpf_get_current_task_btf(), length);
	if (unlikely(!bytes))
		return 0;
	words = kernel_cast(struct timespec64, (void *)bytes);
	status = http1_final_status(words->tv_sec, words->tv_nsec);
	if (unlikely(!status))
		return 0;
	payload.at_ns = tcp_time(sk);
	payload.length = length;
	http1_begin_response(&payload, connection, status);
	return 1;
}

/* A client has sent a request. */
static always_inline int http1_request_sent(struct sock *sk, struct connection *connection, u32 length)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 bytes, words[HEAD_KEPT / 8] = {};
	struct payload payload;
	u32 size = connection->head_bytes;

	if (unlikely(connection->state == STATE_PENDING || length < size || size > HEAD_KEPT ||
		     connection->head_generation != generation_now() || is_capturing()))
		return 0;
	bytes = sent_bytes(task, length);
	if (unlikely(!bytes || bpf_probe_read_kernel(words, size, (void *)bytes) || !is_same_head(words, connection)))
		return 0;
	payload.tgid = current_process_of(task);
	if (is_out_of_scope(payload.tgid))
		return 0;
	payload.sk = (u64)sk;
	payload.at_ns = tcp_time(sk);
	payload.start_ns = 0;
	payload.length = length;
	payload.direction = SENT;
	take_send_stamp(&payload, connection);
	http1_repeat_request(&payload, connection);
	return 1;
}

static always_inline int http1_sent(struct sock *sk, struct connection *connection, u32 length)
{
	u64 word = state_word(connection);

	if (may_be_response(word, ROLE_SERVER))
		return http1_response_sent(sk, connection, length);
	if (may_repeat_request(word, ROLE_CLIENT, length))
		return http1_request_sent(sk, connection, length);
	return 0;
}

#endif
