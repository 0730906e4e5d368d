/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The fast path of Redis at sockets: responses that are not errors, by their first byte. Part of requests.bpf.c.
 *
 * Each function returns 0 for anything else; then nothing has changed.
 */
#ifndef CORAL_PROTOCOL_REDIS_SOCKET_H
#define CORAL_PROTOCOL_REDIS_SOCKET_H

#include "protocol/http1-socket.h"

static always_inline int redis_awaits_response(const struct connection *connection, u32 role)
{
	u64 word = state_word(connection) & STATE_WORD(0, 0xff, 0xff, SLOW_PATH_FLAGS | CONNECTION_SUBSCRIBED, 0);

	return word == STATE_WORD(0, PROTOCOL_REDIS, role, 0, 0) && connection->state == STATE_PENDING && !is_capturing();
}

static always_inline int redis_fast_response(struct connection *connection, u64 at_ns, u32 length, u8 first)
{
	struct payload payload;

	/* An error, or a push message. */
	if (unlikely(first == '-' || first == '>'))
		return 0;
	payload.at_ns = at_ns;
	payload.length = length;
	begin_response(&payload, connection, STATUS_NONE);
	extend_response(&payload, connection);
	return 1;
}

/* A client has read a response. */
static always_inline int redis_received(struct sock *sk, struct connection *connection, u32 length)
{
	u64 buffer;
	u8 first;

	if (!redis_awaits_response(connection, ROLE_CLIENT))
		return 0;
	buffer = plain_read_buffer(bpf_get_current_task_btf());
	if (unlikely(!buffer || bpf_probe_read_user(&first, sizeof(first), (void *)buffer)))
		return 0;
	return redis_fast_response(connection, tcp_read_time(sk), length, first);
}

/* A server has sent a response. */
static always_inline int redis_sent(struct sock *sk, struct connection *connection, u32 length)
{
	u64 bytes;

	if (!redis_awaits_response(connection, ROLE_SERVER))
		return 0;
	bytes = sent_bytes(bpf_get_current_task_btf(), length);
	return likely(bytes) &&
	       redis_fast_response(connection, tcp_time(sk), length, kernel_cast(struct timespec64, (void *)bytes)->tv_sec);
}

#endif
