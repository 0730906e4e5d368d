/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The fallback for kernels without the tracepoints of hooks-socket.h: programs at every system call, which look the socket up by its
 * descriptor. They count the same for TCP, at a higher cost, also for calls unrelated to sockets. Part of requests.bpf.c.
 */
#ifndef CORAL_REQUESTS_HOOKS_SYSCALL_H
#define CORAL_REQUESTS_HOOKS_SYSCALL_H

#include "protocol/dns-udp.h"

#define NO_DIRECTION 2

static always_inline u32 direction_of(u32 number)
{
	switch (number) {
	case NR_READ:
	case NR_READV:
	case NR_RECVFROM:
	case NR_RECVMSG:
	case NR_RECVMMSG:
		return RECEIVED;
	case NR_WRITE:
	case NR_WRITEV:
	case NR_SENDTO:
	case NR_SENDMSG:
	case NR_SENDMMSG:
	case NR_SENDFILE:
	case NR_SPLICE:
		return SENT;
	}
	return NO_DIRECTION;
}

/* The target of splice() is its third argument. A splice() from a socket is not seen. */
static always_inline u64 socket_of_call(u32 number, struct pt_regs *registers)
{
	return socket_of_fd(number == NR_SPLICE ? (u32)SYSCALL_COUNT(registers) : SYSCALL_FD(registers));
}

/* For a finished call with several messages: looks at the first one only. */
static always_inline void find_first_message(struct payload *payload, struct pt_regs *registers)
{
	struct user_message message = {};

	if (bpf_probe_read_user(&message, sizeof(message), (void *)SYSCALL_BUFFER(registers)))
		return;
	payload->length = message.sent;
	find_in_vectors(payload, message.vectors, message.vector_count);
}

static always_inline u32 receive_flags(u32 number, struct pt_regs *registers)
{
	if (number == NR_RECVFROM)
		return SYSCALL_FLAGS(registers);
	return number == NR_RECVMSG ? SYSCALL_COUNT(registers) : 0;
}

/* A send starts: see socket_sending(). */
SEC("tp_btf/sys_enter")
int syscall_enters(u64 *context)
{
	struct pt_regs *registers = (struct pt_regs *)context[0];
	struct connection *connection;
	u64 sk;

	if (direction_of(context[1]) != SENT || SYSCALL_IS_COMPAT(registers))
		return 0;
	sk = socket_of_call(context[1], registers);
	if (!sk)
		return 0;
	connection = find_connection(sk);
	if (connection && !connection->arrival_ns && connection->protocol != PROTOCOL_IGNORED &&
	    (connection->role ? connection->role == ROLE_CLIENT : connection->side == SIDE_CONNECTED))
		connection->arrival_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int syscall_exits(u64 *context)
{
	struct pt_regs *registers = (struct pt_regs *)context[0];
	u32 number = SYSCALL_NUMBER(registers), direction = direction_of(number);
	s64 result = (s64)context[1];
	struct connection *connection;
	struct scratch *scratch;
	struct payload payload;
	u32 flags, process;
	u64 sk;

	if (direction == NO_DIRECTION || result <= 0 || SYSCALL_IS_COMPAT(registers))
		return 0;
	process = current_process();
	if (is_out_of_scope(process))
		return 0;
	flags = direction == RECEIVED ? receive_flags(number, registers) : 0;
	if (flags & (MSG_PEEK | MSG_ERRQUEUE))
		return 0;
	sk = socket_of_call(number, registers);
	if (!sk)
		return 0;
	connection = find_connection(sk);
	if (!connection) {
		u16 family = 0, protocol = 0;

		core_read(&family, &((struct sock *)sk)->__sk_common.skc_family);
		if (family != AF_INET && family != AF_INET6)
			return 0;
		core_read(&protocol, &((struct sock *)sk)->sk_protocol);
		if (protocol == IPPROTO_UDP) {
			u64 message = SYSCALL_BUFFER(registers);

			if (number != NR_RECVMMSG && number != NR_SENDMMSG)
				return on_datagram(sk, (struct sock *)sk, registers, result, direction, 0);
#pragma clang loop unroll(disable)
			for (u32 index = 0; index < 4 && index < result; index++)
				on_datagram(sk, (struct sock *)sk, registers, 0, direction, message + index * sizeof(struct user_message));
			return 0;
		}
		connection = add_connection((struct sock *)sk, SIDE_UNKNOWN);
	}
	if (!connection || connection->protocol == PROTOCOL_IGNORED)
		return 0;
	scratch = scratch_at(SCRATCH_SOCKET);
	if (!scratch)
		return 0;
	payload.sk = sk;
	payload.at_ns = bpf_ktime_get_ns();
	payload.start_ns = 0;
	payload.length = result;
	payload.tgid = process;
	payload.direction = direction;
	payload.flags = 0;
	payload.is_in_kernel = 0;
	if (direction == RECEIVED && connection->ready_ns) {
		u32 read_until = 0;

		core_read(&read_until, &((struct tcp_sock *)sk)->copied_seq);
		take_ready_stamp(connection, read_until - (u32)result);
	}
	take_stamp(&payload, connection);
	find_buffer(&payload, registers);
	if (number == NR_RECVMMSG || number == NR_SENDMMSG)
		find_first_message(&payload, registers);
	if (flags & MSG_TRUNC)
		payload.buffer = 0;
	if (http1_fast_path(&payload, connection))
		return 0;
	if (connection->flags & CONNECTION_TLS)
		on_tls_record(&payload, connection, scratch);
	else
		on_payload(&payload, connection, scratch);
	return 0;
}

#endif
