/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Totals per peer (process, role, addresses, server port) of connections that no scan saw. Part of connections.bpf.c.
 *
 * A new peer is announced at once, so that user space knows it before the next scan.
 */
#ifndef CORAL_TCP_PEERS_H
#define CORAL_TCP_PEERS_H

#include "tcp/tracked-connection.h"

/* Limit on announcements. Above it, the first connections of new peers are only added to the totals. */
#define ANNOUNCED_PER_SECOND 500
#define NS_PER_SECOND 1000000000ULL

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

/* Peers that have been announced. When full, the least recently used one is evicted, and announced again when it returns. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, 8192);
	MAP_TYPE(key, struct peer_key);
	MAP_TYPE(value, u64);
} known_peers SEC(".maps");

static always_inline void peer_key_of(const struct tracked_connection *socket, struct peer_key *key)
{
	__builtin_memset(key, 0, sizeof(*key));
	key->tgid = socket->tgid;
	key->netns = socket->netns;
	__builtin_memcpy(key->remote, socket->remote, 16);
	key->server_port = socket->role == ROLE_SERVER ? socket->local_port : socket->remote_port;
	key->role = socket->role;
}

/* True if the peer is new and the limit allows announcing it now. Marks it as known. */
static always_inline int is_new_peer(const struct tracked_connection *socket, u64 now)
{
	struct counters *pace = bpf_map_lookup_elem(&counters, &zero);
	struct peer_key key;
	u64 second = now / NS_PER_SECOND;

	peer_key_of(socket, &key);
	if (bpf_map_lookup_elem(&known_peers, &key) || !pace)
		return 0;
	/* Racy between processors, which only makes the limit slightly inexact. */
	if (pace->announced_second != second) {
		pace->announced_second = second;
		pace->announced = 0;
	}
	if (__sync_fetch_and_add(&pace->announced, 1) >= ANNOUNCED_PER_SECOND)
		return 0;
	bpf_map_update_elem(&known_peers, &key, &now, BPF_ANY);
	return 1;
}

static always_inline void announce(struct tracked_connection *socket, u64 now)
{
	struct connection_record *record;

	if (!is_new_peer(socket, now))
		return;
	socket->is_first = 1;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record)
		return;
	fill_record(record, socket, RECORD_OPENED, now);
	bpf_ringbuf_submit(record, wake_flag(&records));
}

static always_inline int add_record(struct peer_totals *totals, const struct connection_record *record)
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

/* 0: the table of peers is full. */
static always_inline int add_to_peer(u64 active, const struct tracked_connection *socket, const struct connection_record *record)
{
	struct peer_totals none = {};
	struct peer_key key;

	peer_key_of(socket, &key);
	__builtin_memcpy(key.local, socket->local, 16);
	none.first_ns = socket->started_ns;
	if (active) {
		if (!bpf_map_lookup_elem(&peers_b, &key))
			bpf_map_update_elem(&peers_b, &key, &none, BPF_NOEXIST);
		return add_record(bpf_map_lookup_elem(&peers_b, &key), record);
	}
	if (!bpf_map_lookup_elem(&peers_a, &key))
		bpf_map_update_elem(&peers_a, &key, &none, BPF_NOEXIST);
	return add_record(bpf_map_lookup_elem(&peers_a, &key), record);
}

#endif
