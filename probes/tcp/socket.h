/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The parts of a TCP socket that are read when its state changes, and constants of the kernel. Part of connections.bpf.c.
 *
 * The structures are CO-RE flavours: libbpf ignores the name from ___ on, so they may differ from those of other headers.
 */
#ifndef CORAL_TCP_SOCKET_H
#define CORAL_TCP_SOCKET_H

#include "core/bpf.h"

#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6

/* <net/tcp_states.h> */
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_CLOSE 7
#define TCP_LISTEN 10

/* <net/sock.h>, enum sock_flags: the peer has sent its FIN. */
#define SOCK_DONE 1

/* <asm-generic/errno.h> */
#define EPIPE 32
#define ECONNRESET 104
#define ETIMEDOUT 110
#define ECONNREFUSED 111

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpadded"
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct address16 {
	u8 bytes[16];
};

struct ns_common___tcp {
	u32 inum;
};

struct net___tcp {
	struct ns_common___tcp ns;
};

struct net_pointer {
	struct net___tcp *net;
};

struct sock_common___tcp {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	u64 skc_flags;
	struct net_pointer skc_net;
	struct address16 skc_v6_daddr;
	struct address16 skc_v6_rcv_saddr;
};

struct sock___tcp {
	struct sock_common___tcp __sk_common;
	u16 sk_protocol;
	s32 sk_err;
};

struct inet_sock___tcp {
	u16 inet_sport;
};

struct tcp_sock___tcp {
	u64 bytes_sent;
	u64 bytes_retrans;
	u64 bytes_received;
	u32 srtt_us;
	u32 total_retrans;
};

#pragma clang attribute pop
#pragma clang diagnostic pop

#endif
