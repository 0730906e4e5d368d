/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Connections tracked from their first packet on, and what is read from their sockets. Part of connections.bpf.c. */
#ifndef CORAL_TCP_TRACKED_CONNECTION_H
#define CORAL_TCP_TRACKED_CONNECTION_H

#include "tcp/records.h"
#include "tcp/socket.h"

struct tracked_connection {
	u64 started_ns;
	u32 tgid;
	u32 netns;
	u8 local[16];
	u8 remote[16];
	u16 local_port;
	u16 remote_port;
	u8 role;
	u8 is_established;
	u8 is_first;
	u8 reserved;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_NUMBER(max_entries, 65536);
	MAP_TYPE(key, u64);
	MAP_TYPE(value, struct tracked_connection);
} tracked_connections SEC(".maps");

static always_inline void track(u64 id, struct tracked_connection *socket)
{
	struct counters *now;

	if (bpf_map_update_elem(&tracked_connections, &id, socket, BPF_ANY) == 0)
		return;
	now = bpf_map_lookup_elem(&counters, &zero);
	if (now)
		__sync_fetch_and_add(&now->untracked, 1);
}

/* Stores an IPv4 address as ::ffff:a.b.c.d. */
static always_inline void put_ipv4(u8 *target, u32 address)
{
	__builtin_memset(target, 0, 10);
	target[10] = 0xff;
	target[11] = 0xff;
	__builtin_memcpy(target + 12, &address, 4);
}

/*
 * Reads both ends, as far as they are known in this state. Reads inet_sport, because skc_num of a client is 0 before the socket counts as
 * closed.
 */
static always_inline void read_endpoints(struct sock___tcp *sk, struct tracked_connection *socket)
{
	struct inet_sock___tcp *inet = (void *)sk;
	struct net___tcp *net = 0;
	u16 family = 0, port = 0;
	u32 address = 0;

	core_read(&family, &sk->__sk_common.skc_family);
	core_read(&net, &sk->__sk_common.skc_net.net);
	core_read(&socket->netns, &net->ns.inum);
	core_read(&port, &sk->__sk_common.skc_dport);
	socket->remote_port = __builtin_bswap16(port);
	core_read(&port, &inet->inet_sport);
	socket->local_port = __builtin_bswap16(port);
	if (family == AF_INET6) {
		bpf_probe_read_kernel(socket->remote, 16, __builtin_preserve_access_index(&sk->__sk_common.skc_v6_daddr));
		bpf_probe_read_kernel(socket->local, 16, __builtin_preserve_access_index(&sk->__sk_common.skc_v6_rcv_saddr));
	} else {
		core_read(&address, &sk->__sk_common.skc_daddr);
		put_ipv4(socket->remote, address);
		core_read(&address, &sk->__sk_common.skc_rcv_saddr);
		put_ipv4(socket->local, address);
	}
}

static always_inline void read_counters(struct sock___tcp *sk, struct connection_record *record)
{
	struct tcp_sock___tcp *tcp = (void *)sk;
	u64 sent = 0, again = 0, received = 0, flags = 0;
	u32 rtt = 0;

	core_read(&sent, &tcp->bytes_sent);
	core_read(&again, &tcp->bytes_retrans);
	core_read(&received, &tcp->bytes_received);
	core_read(&flags, &sk->__sk_common.skc_flags);
	core_read(&rtt, &tcp->srtt_us);
	core_read(&record->retransmits, &tcp->total_retrans);
	record->bytes_sent = sent - again;
	/* A FIN takes a sequence number, which TCP counts as a byte. */
	record->bytes_received = received - (received > 0 && flags & 1ULL << SOCK_DONE ? 1 : 0);
	/* srtt_us holds eighths of a microsecond. */
	record->rtt_us = rtt >> 3;
}

static always_inline u8 reason_of(struct sock___tcp *sk)
{
	s32 error = 0;

	core_read(&error, &sk->sk_err);
	switch (error) {
	case ECONNREFUSED:
		return REASON_REFUSED;
	case ECONNRESET:
	case EPIPE:
		return REASON_RESET;
	case ETIMEDOUT:
		return REASON_TIMED_OUT;
	default:
		return REASON_NONE;
	}
}

static always_inline void fill_record(struct connection_record *record, const struct tracked_connection *socket, u8 kind, u64 now)
{
	__builtin_memset(record, 0, sizeof(*record));
	record->started_ns = socket->started_ns;
	record->at_ns = now;
	record->tgid = socket->tgid;
	record->netns = socket->netns;
	__builtin_memcpy(record->local, socket->local, 16);
	__builtin_memcpy(record->remote, socket->remote, 16);
	record->local_port = socket->local_port;
	record->remote_port = socket->remote_port;
	record->kind = kind;
	record->role = socket->role;
}

#endif
