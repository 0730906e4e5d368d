/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Every TCP connection, from its first packet to its end: who opened it, how it ended, what went through it. One program, at the tracepoint that
 * tells changes of state; nothing runs while data flows.
 *
 * The agent also scans sockets, every 30 s or so, and each connection must be counted once. So the agent marks when a scan begins and ends.
 * A connection that no scan can have seen, because it began after the last one and ends before the next, is added up here, by peer. All others
 * are told one by one when they end, and the agent finds out whether its scan had seen them. So is the first one of each peer, at its begin
 * and at its end.
 */
#include "tcp-socket.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct raw_arguments {
	u64 args[3];
};

#define ROLE_UNKNOWN 0
#define ROLE_CLIENT 1
#define ROLE_SERVER 2

#define RECORD_OPENED 1
#define RECORD_CLOSED 2
#define RECORD_FAILED 3

#define REASON_NONE 0
#define REASON_REFUSED 1
#define REASON_RESET 2
#define REASON_TIMED_OUT 3

/* First connections of new peers that are told per second; more are added up like others. */
#define ANNOUNCED_PER_SECOND 500
#define NS_PER_SECOND 1000000000ULL

/* <linux/bpf.h> */
struct bpf_pidns_info {
	u32 pid;
	u32 tgid;
};

static long (*const bpf_get_ns_current_pid_tgid)(u64 device, u64 inode, struct bpf_pidns_info *info, u32 size_bytes) = (void *)120;

/* Where user space sees process ids, when that is not the first namespace of the machine. */
const volatile u64 pid_namespace_device = 0;
const volatile u64 pid_namespace_inode = 0;

/* Written by user space. */
struct control {
	/* A scan is under way while its begin is later than its end. */
	u64 scan_start_ns;
	u64 scan_end_ns;
	/* Which of the two tables takes amounts; user space empties the other. */
	u64 active;
};

struct counters {
	/* Neither added up nor told. */
	u64 lost;
	/* Not followed: the table of sockets was full. */
	u64 unfollowed;
	u64 announced_second;
	u64 announced;
};

struct followed {
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

struct peer_key {
	u32 tgid;
	u32 netns;
	u8 local[16];
	u8 remote[16];
	u16 server_port;
	u8 role;
	u8 reserved;
};

struct peer_totals {
	u64 connections;
	u64 failed;
	u64 refused;
	u64 reset;
	u64 timed_out;
	u64 bytes_sent;
	u64 bytes_received;
	u64 rtt_sum_us;
	u64 rtt_count;
	u64 retransmits;
	u64 first_ns;
	u64 last_ns;
};

struct connection_record {
	u64 started_ns;
	u64 at_ns;
	u64 bytes_sent;
	u64 bytes_received;
	u32 tgid;
	u32 netns;
	u32 rtt_us;
	u32 retransmits;
	u8 local[16];
	u8 remote[16];
	u16 local_port;
	u16 remote_port;
	u8 kind;
	u8 role;
	u8 reason;
	u8 reserved;
};

/* Keeps the record's layout in the object, where the reader's is compared with it. */
const struct connection_record *record_layout;

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct control);
} control SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct counters);
} counters SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_NUMBER(max_entries, 65536);
	MAP_TYPE(key, u64);
	MAP_TYPE(value, struct followed);
} sockets SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_NUMBER(max_entries, 16384);
	MAP_TYPE(key, struct peer_key);
	MAP_TYPE(value, struct peer_totals);
} peers_a SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_NUMBER(max_entries, 16384);
	MAP_TYPE(key, struct peer_key);
	MAP_TYPE(value, struct peer_totals);
} peers_b SEC(".maps");

/* Peers that were announced; the one that was not used for longest goes first. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, 8192);
	MAP_TYPE(key, struct peer_key);
	MAP_TYPE(value, u64);
} known_peers SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, 524288);
} records SEC(".maps");

static const u32 only = 0;

static always_inline void count_lost(void)
{
	struct counters *now = bpf_map_lookup_elem(&counters, &only);

	if (now)
		__sync_fetch_and_add(&now->lost, 1);
}

/* IPv4 addresses stand in IPv6 as ::ffff:a.b.c.d. */
static always_inline void put_ipv4(u8 *target, u32 address)
{
	__builtin_memset(target, 0, 10);
	target[10] = 0xff;
	target[11] = 0xff;
	__builtin_memcpy(target + 12, &address, 4);
}

/* Both ends, as far as they are known in this state. The local port of a client is given up before its socket counts as closed. */
static always_inline void read_ends(struct sock___tcp *sk, struct followed *socket)
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

static always_inline void key_of(const struct followed *socket, struct peer_key *key)
{
	__builtin_memset(key, 0, sizeof(*key));
	key->tgid = socket->tgid;
	key->netns = socket->netns;
	__builtin_memcpy(key->remote, socket->remote, 16);
	key->server_port = socket->role == ROLE_SERVER ? socket->local_port : socket->remote_port;
	key->role = socket->role;
}

static always_inline void fill(struct connection_record *record, const struct followed *socket, u8 kind, u64 now)
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

/* True when the peer is new, and there is room to tell it now. */
static always_inline int is_news(const struct followed *socket, u64 now)
{
	struct counters *pace = bpf_map_lookup_elem(&counters, &only);
	struct peer_key key;
	u64 second = now / NS_PER_SECOND;

	key_of(socket, &key);
	if (bpf_map_lookup_elem(&known_peers, &key) || !pace)
		return 0;
	/* Not exact when two processors meet here, and need not be. */
	if (pace->announced_second != second) {
		pace->announced_second = second;
		pace->announced = 0;
	}
	if (__sync_fetch_and_add(&pace->announced, 1) >= ANNOUNCED_PER_SECOND)
		return 0;
	bpf_map_update_elem(&known_peers, &key, &now, BPF_ANY);
	return 1;
}

static always_inline void announce(struct followed *socket, u64 now)
{
	struct connection_record *record;

	if (!is_news(socket, now))
		return;
	socket->is_first = 1;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record)
		return;
	fill(record, socket, RECORD_OPENED, now);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

static always_inline void follow(u64 id, struct followed *socket)
{
	struct counters *now;

	if (bpf_map_update_elem(&sockets, &id, socket, BPF_ANY) == 0)
		return;
	now = bpf_map_lookup_elem(&counters, &only);
	if (now)
		__sync_fetch_and_add(&now->unfollowed, 1);
}

/* As user space numbers processes; 0 for one that it does not see. */
static always_inline u32 current_process(void)
{
	struct bpf_pidns_info info = {};

	if (!pid_namespace_inode)
		return bpf_get_current_pid_tgid() >> 32;
	if (bpf_get_ns_current_pid_tgid(pid_namespace_device, pid_namespace_inode, &info, sizeof(info)) != 0)
		return 0;
	return info.tgid;
}

/* In the process that calls connect(2). */
static always_inline void on_connecting(struct sock___tcp *sk)
{
	struct followed socket = {};

	socket.started_ns = bpf_ktime_get_ns();
	socket.tgid = current_process();
	socket.role = ROLE_CLIENT;
	follow((u64)sk, &socket);
}

static always_inline void on_connected(struct sock___tcp *sk)
{
	u64 id = (u64)sk;
	struct followed *socket = bpf_map_lookup_elem(&sockets, &id);

	if (!socket)
		return;
	read_ends(sk, socket);
	socket->is_established = 1;
	announce(socket, bpf_ktime_get_ns());
}

/* Wherever its last packet arrived: whose connection it is, whoever listens knows. */
static always_inline void on_accepted(struct sock___tcp *sk)
{
	struct followed socket = {};

	socket.started_ns = bpf_ktime_get_ns();
	socket.role = ROLE_SERVER;
	socket.is_established = 1;
	read_ends(sk, &socket);
	announce(&socket, socket.started_ns);
	follow((u64)sk, &socket);
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

static always_inline int add_to(struct peer_totals *totals, const struct connection_record *record)
{
	if (!totals)
		return 0;
	if (record->kind == RECORD_FAILED)
		__sync_fetch_and_add(&totals->failed, 1);
	else
		__sync_fetch_and_add(&totals->connections, 1);
	if (record->reason == REASON_REFUSED)
		__sync_fetch_and_add(&totals->refused, 1);
	if (record->reason == REASON_RESET)
		__sync_fetch_and_add(&totals->reset, 1);
	if (record->reason == REASON_TIMED_OUT)
		__sync_fetch_and_add(&totals->timed_out, 1);
	if (record->rtt_us) {
		__sync_fetch_and_add(&totals->rtt_sum_us, record->rtt_us);
		__sync_fetch_and_add(&totals->rtt_count, 1);
	}
	__sync_fetch_and_add(&totals->bytes_sent, record->bytes_sent);
	__sync_fetch_and_add(&totals->bytes_received, record->bytes_received);
	__sync_fetch_and_add(&totals->retransmits, record->retransmits);
	totals->last_ns = record->at_ns;
	return 1;
}

/* Zero when there is no room for another peer. */
static always_inline int add_up(u64 active, const struct followed *socket, const struct connection_record *record)
{
	struct peer_totals none = {};
	struct peer_key key;

	key_of(socket, &key);
	__builtin_memcpy(key.local, socket->local, 16);
	none.first_ns = socket->started_ns;
	if (active) {
		if (!bpf_map_lookup_elem(&peers_b, &key))
			bpf_map_update_elem(&peers_b, &key, &none, BPF_NOEXIST);
		return add_to(bpf_map_lookup_elem(&peers_b, &key), record);
	}
	if (!bpf_map_lookup_elem(&peers_a, &key))
		bpf_map_update_elem(&peers_a, &key, &none, BPF_NOEXIST);
	return add_to(bpf_map_lookup_elem(&peers_a, &key), record);
}

/* Whether a scan, finished or under way, may have seen the connection. */
static always_inline int may_be_scanned(const struct control *marks, u64 started_ns)
{
	return marks->scan_start_ns > marks->scan_end_ns || started_ns <= marks->scan_end_ns;
}

static always_inline void read_amounts(struct sock___tcp *sk, struct connection_record *record)
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
	/* The sign of the end takes a number among the bytes. */
	record->bytes_received = received - (received > 0 && flags & 1ULL << SOCK_DONE ? 1 : 0);
	/* Kept as eighths. */
	record->rtt_us = rtt >> 3;
}

static always_inline void on_closed(struct sock___tcp *sk, s32 before)
{
	u64 id = (u64)sk, now = bpf_ktime_get_ns();
	struct followed *known = bpf_map_lookup_elem(&sockets, &id);
	struct control *marks = bpf_map_lookup_elem(&control, &only);
	struct followed socket = {};
	struct connection_record record;

	if (known)
		socket = *known;
	else if (before == TCP_SYN_SENT || before == TCP_SYN_RECV)
		return;
	if (!socket.is_established)
		read_ends(sk, &socket);
	fill(&record, &socket, known && !socket.is_established ? RECORD_FAILED : RECORD_CLOSED, now);
	record.reason = reason_of(sk);
	if (record.kind == RECORD_CLOSED)
		read_amounts(sk, &record);
	if (known)
		bpf_map_delete_elem(&sockets, &id);
	if (record.kind == RECORD_FAILED && is_news(&socket, now))
		socket.is_first = 1;
	if (known && marks && !socket.is_first && !may_be_scanned(marks, socket.started_ns) && add_up(marks->active, &socket, &record))
		return;
	if (bpf_ringbuf_output(&records, &record, sizeof(record), BPF_RB_NO_WAKEUP) != 0)
		count_lost();
}

SEC("raw_tracepoint/inet_sock_set_state")
int on_state(struct raw_arguments *context)
{
	struct sock___tcp *sk = (void *)context->args[0];
	s32 before = (s32)context->args[1], after = (s32)context->args[2];
	u16 protocol = 0;

	if (after != TCP_SYN_SENT && after != TCP_ESTABLISHED && after != TCP_CLOSE)
		return 0;
	core_read(&protocol, &sk->sk_protocol);
	if (protocol != IPPROTO_TCP)
		return 0;
	if (after == TCP_SYN_SENT)
		on_connecting(sk);
	else if (after == TCP_CLOSE && before != TCP_LISTEN && before != TCP_CLOSE)
		on_closed(sk, before);
	else if (after == TCP_ESTABLISHED && before == TCP_SYN_SENT)
		on_connected(sk);
	else if (after == TCP_ESTABLISHED && before == TCP_SYN_RECV)
		on_accepted(sk);
	return 0;
}
