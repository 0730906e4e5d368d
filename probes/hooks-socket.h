/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Hooks that fire for sockets only and pass the socket itself: no table of descriptors, no cost for other system calls, and connections older
 * than Coral work like new ones. sock_recv_length and sock_send_length came with Linux 6.3, tcp_sendmsg_locked with 6.16.
 */
#ifndef CORAL_HOOKS_SOCKET_H
#define CORAL_HOOKS_SOCKET_H

#include "datagram.h"

/* Lower end of net.ipv4.ip_local_port_range. */
const volatile u32 first_client_port = 32768;

#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3

static always_inline int on_socket(struct sock *sk, s32 length, u32 flags, u32 direction)
{
	struct connection *connection;
	struct task_struct *task;
	struct scratch *scratch;
	struct payload payload;

	if (length <= 0 || flags & (MSG_PEEK | MSG_ERRQUEUE))
		return 0;
	connection = find_connection((u64)sk);
	if (!connection) {
		u16 family = sk->__sk_common.skc_family;

		if (family != AF_INET && family != AF_INET6)
			return 0;
		if (sk->sk_protocol == IPPROTO_UDP)
			return on_datagram((u64)sk, sk, (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf()), length, direction, 0);
		connection = add_connection(sk, SIDE_UNKNOWN);
	}
	if (!connection || connection->protocol == PROTOCOL_IGNORED)
		return 0;
	/* Plaintext comes from tls.h, and the name of the server has been told: nothing more is wanted of the records. */
	if ((connection->flags & TLS_SETTLED) == TLS_SETTLED)
		return 0;
	task = bpf_get_current_task_btf();
	payload.sk = (u64)sk;
	payload.at_ns = bpf_ktime_get_ns();
	payload.start_ns = 0;
	payload.length = length;
	payload.tgid = task->tgid;
	payload.direction = direction;
	payload.flags = 0;
	take_stamp(&payload, connection);
	find_buffer(&payload, (struct pt_regs *)bpf_task_pt_regs(task));
	if (http1_quick(&payload, connection))
		return 0;
	scratch = scratch_at(SCRATCH_SOCKET);
	if (!scratch)
		return 0;
	if (connection->flags & CONNECTION_TLS)
		on_tls_record(&payload, connection, scratch);
	else
		on_payload(&payload, connection, scratch);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int socket_received(u64 *context)
{
	return on_socket((struct sock *)context[0], (s32)context[1], (u32)context[2], RECEIVED);
}

SEC("tp_btf/sock_send_length")
int socket_sent(u64 *context)
{
	return on_socket((struct sock *)context[0], (s32)context[1], (u32)context[2] & 0, SENT);
}

/*
 * Saves a lookup where the ports tell which side this is: one is of the range that clients get theirs from, the other is not. Only stamps of time
 * depend on it, so a client that chose its own port loses little.
 */
static always_inline int is_surely(u32 side, struct sock *sk)
{
	u32 is_local_chosen = sk->__sk_common.skc_num >= first_client_port;
	u32 is_remote_chosen = __builtin_bswap16(sk->__sk_common.skc_dport) >= first_client_port;

	return is_local_chosen != is_remote_chosen && is_local_chosen == (side == SIDE_CONNECTED);
}

/* Bytes came for a server: from here on they wait. */
SEC("tp_btf/sk_data_ready")
int socket_ready(u64 *context)
{
	struct sock *sk = (struct sock *)context[0];
	u16 family = sk->__sk_common.skc_family;
	struct connection *connection;

	if ((family != AF_INET && family != AF_INET6) || is_surely(SIDE_CONNECTED, sk))
		return 0;
	connection = find_connection((u64)sk);
	if (connection && !connection->arrival_ns && connection->protocol != PROTOCOL_IGNORED &&
	    (connection->role ? connection->role == ROLE_SERVER : connection->side == SIDE_ACCEPTED))
		connection->arrival_ns = bpf_ktime_get_ns();
	return 0;
}

/* A send begins. On loopback the receiver may answer before the send returns, so the time after it is too late for a client. */
SEC("tp_btf/tcp_sendmsg_locked")
int socket_sending(u64 *context)
{
	struct sock *sk = (struct sock *)context[0];
	struct connection *connection;

	if (is_surely(SIDE_ACCEPTED, sk))
		return 0;
	connection = find_connection((u64)sk);
	if (connection && !connection->arrival_ns && connection->protocol != PROTOCOL_IGNORED && !(connection->flags & CONNECTION_TLS_BOUND) &&
	    (connection->role ? connection->role == ROLE_CLIENT : connection->side == SIDE_CONNECTED))
		connection->arrival_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int socket_state(u64 *context)
{
	struct sock *sk = (struct sock *)context[0];
	s32 before = (s32)context[1], after = (s32)context[2];

	if (after == TCP_CLOSE)
		end_connection((u64)sk);
	else if (after == TCP_ESTABLISHED && (before == TCP_SYN_RECV || before == TCP_SYN_SENT))
		add_connection(sk, before == TCP_SYN_RECV ? SIDE_ACCEPTED : SIDE_CONNECTED);
	return 0;
}

#endif
