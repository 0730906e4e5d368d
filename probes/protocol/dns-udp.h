/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * DNS over UDP: each datagram that looks like a query or an answer goes to the ring. UDP sockets have no states and no end that a hook would tell,
 * so they are not in the table of connections; the few that are remembered only save looking at datagrams of other protocols.
 *
 * Whom a datagram goes to is known from the socket when it is connected, else from the address that the process passed. Where a datagram came from is
 * written to the process only after these hooks; user space takes it from the answer.
 */
#ifndef CORAL_PROTOCOL_DNS_UDP_H
#define CORAL_PROTOCOL_DNS_UDP_H

#include "requests/user-buffer.h"

/* A header, the shortest name, type and class. */
#define MIN_DNS_BYTES 17
/* Names are at most 255 bytes. */
#define DATAGRAM_BYTES 320

struct datagram_socket {
	u16 local_port;
	u16 misses;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, 4096);
	MAP_TYPE(key, u64); /* address of struct sock */
	MAP_TYPE(value, struct datagram_socket);
} datagram_sockets SEC(".maps");

/* Datagrams that did not fit into the ring; sockets have no place of their own to count them. */
u32 datagrams_missed = 0;

/* Where a thread is in a call for several messages: hooks at sockets are called for each of them, and not told which one it is. */
struct message_cursor {
	u64 sk;
	/* Of an array of struct mmsghdr. */
	u64 messages;
	/* Of the next one, and what the one before has as its length once it is done. */
	u32 index;
	u32 length;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, 1024);
	MAP_TYPE(key, u64); /* process and thread */
	MAP_TYPE(value, struct message_cursor);
} message_cursors SEC(".maps");

/* struct sockaddr_in6; struct sockaddr_in begins alike. */
struct user_address {
	u16 family;
	u16 port;
	u32 flow_or_ipv4;
	u8 ipv6[16];
};

/* The message of a call for several that is under way; 0: the call is none for several. */
static always_inline u64 message_of_call(u64 sk, struct pt_regs *registers, u32 length)
{
	u64 messages = SYSCALL_BUFFER(registers), thread = bpf_get_current_pid_tgid();
	u32 number = SYSCALL_NUMBER(registers);
	struct message_cursor next = { .sk = sk, .messages = messages, .length = length };
	struct user_message before = {};
	struct message_cursor *cursor;

	if (number != NR_RECVMMSG && number != NR_SENDMMSG)
		return 0;
	cursor = bpf_map_lookup_elem(&message_cursors, &thread);
	if (cursor && cursor->sk == sk && cursor->messages == messages && cursor->index < SYSCALL_COUNT(registers) &&
	    !bpf_probe_read_user(&before, sizeof(before), (void *)(messages + (cursor->index - 1) * sizeof(before))) &&
	    before.sent == cursor->length)
		next.index = cursor->index;
	messages += next.index * sizeof(before);
	next.index++;
	bpf_map_update_elem(&message_cursors, &thread, &next, BPF_ANY);
	return messages;
}

/* A receive has failed: with that a call for several messages ends, if it is one. */
static always_inline void forget_messages(void)
{
	u64 thread = bpf_get_current_pid_tgid();

	bpf_map_delete_elem(&message_cursors, &thread);
}

static always_inline u64 destination_of(struct pt_regs *registers, u64 message)
{
	u64 address = SYSCALL_ADDRESS(registers), name = 0;
	u32 number = SYSCALL_NUMBER(registers);

	/* Else both ways end in one load, from registers or from the stack, which the verifier refuses. */
	asm volatile("" : "+r"(address));
	if (number == NR_SENDTO)
		return address;
	if (number != NR_SENDMSG && number != NR_SENDMMSG)
		return 0;
	/* The first field of struct msghdr. */
	bpf_probe_read_user(&name, sizeof(name), (void *)(message ? message : SYSCALL_BUFFER(registers)));
	return name;
}

static always_inline void read_destination(struct payload_record *record, struct pt_regs *registers, u64 message)
{
	u64 pointer = destination_of(registers, message);
	struct user_address address = {};

	if (!pointer || bpf_probe_read_user(&address, 8, (void *)pointer))
		return;
	if (address.family == AF_INET) {
		*(u16 *)(record->remote + 10) = 0xffff;
		*(u32 *)(record->remote + 12) = address.flow_or_ipv4;
	} else if (address.family == AF_INET6 && !bpf_probe_read_user(&address, sizeof(address), (void *)pointer)) {
		__builtin_memcpy(record->remote, address.ipv6, 16);
	} else {
		return;
	}
	record->remote_port = __builtin_bswap16(address.port);
}

static always_inline void read_datagram_addresses(struct payload_record *record, struct sock *sk)
{
	u16 family = 0, port = 0;

	core_read(&family, &sk->__sk_common.skc_family);
	if (family == AF_INET) {
		u32 address = 0;

		*(u16 *)(record->local + 10) = 0xffff;
		core_read(&address, &sk->__sk_common.skc_rcv_saddr);
		*(u32 *)(record->local + 12) = address;
		core_read(&address, &sk->__sk_common.skc_daddr);
		if (address)
			*(u16 *)(record->remote + 10) = 0xffff;
		*(u32 *)(record->remote + 12) = address;
	} else {
		core_read((struct in6_addr *)record->local, &sk->__sk_common.skc_v6_rcv_saddr);
		core_read((struct in6_addr *)record->remote, &sk->__sk_common.skc_v6_daddr);
	}
	core_read(&port, &sk->__sk_common.skc_dport);
	record->remote_port = __builtin_bswap16(port);
}

static always_inline void note_datagram_socket(u64 key, struct datagram_socket *known, u16 local_port, u32 is_dns)
{
	struct datagram_socket fresh = { .local_port = local_port, .misses = 1 };

	if (known && known->local_port == local_port) {
		if (is_dns)
			known->misses = 0;
		else
			known->misses++;
	} else if (!is_dns) {
		bpf_map_update_elem(&datagram_sockets, &key, &fresh, BPF_ANY);
	}
}

/* Where the bytes are, and how many. `message`: the one of several (struct mmsghdr), which has its length once it is done; 0: there is but one. */
static always_inline u32 find_datagram(struct payload *payload, struct pt_regs *registers, u64 message)
{
	struct user_message header = {};

	if (!message) {
		find_buffer(payload, registers);
	} else if (!bpf_probe_read_user(&header, sizeof(header), (void *)message)) {
		if (!payload->length)
			payload->length = header.sent;
		find_in_vectors(payload, header.vectors, header.vector_count);
	}
	return payload->buffer && payload->length >= MIN_DNS_BYTES;
}

/*
 * `key` is the address of `sk` once more: the verifier may know that one as a pointer. `message`: of a call that is over, see find_datagram(); then `length` is 0.
 */
static always_inline int on_datagram(u64 key, struct sock *sk, struct pt_regs *registers, u32 length, u32 direction, u64 message)
{
	struct scratch *scratch = scratch_at(SCRATCH_SOCKET);
	struct controls *control = controls_now();
	struct payload_record *record;
	struct datagram_socket *known;
	struct payload payload = {};
	u16 local_port = 0;
	u32 total, kind;

	if (!scratch || !control || (control->skipped_protocols | control->disabled_protocols) & 1U << PROTOCOL_DNS)
		return 0;
	known = bpf_map_lookup_elem(&datagram_sockets, &key);
	core_read(&local_port, &sk->__sk_common.skc_num);
	if (known && known->local_port == local_port && known->misses >= MAX_MISSES)
		return 0;
	if (!message)
		message = message_of_call(key, registers, length);
	payload.length = length;
	payload.tgid = bpf_get_current_pid_tgid() >> 32;
	if (!find_datagram(&payload, registers, message))
		return 0;
	total = read_bytes(&payload, scratch, 0, 0, DATAGRAM_BYTES);
	kind = total >= MIN_DNS_BYTES ? dns_kind(scratch->bytes) : 0;
	note_datagram_socket(key, known, local_port, kind);
	if (!kind || total > DATAGRAM_BYTES || bpf_map_lookup_elem(&own_processes, &payload.tgid))
		return 0;
	record = (void *)scratch->record;
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = RECORD_PAYLOAD;
	record->protocol = PROTOCOL_DNS;
	record->role = (direction == RECEIVED) == (kind == 1) ? ROLE_SERVER : ROLE_CLIENT;
	record->flags = PAYLOAD_UDP;
	record->direction = direction;
	record->bytes = total;
	/* By way of memory: the verifier knows the key as a pointer, with which nothing may be calculated. */
	*(volatile u64 *)&scratch->fingerprint = key;
	record->connection = *(volatile u64 *)&scratch->fingerprint >> 6;
	record->tgid = payload.tgid;
	record->at_ns = bpf_ktime_get_ns();
	record->length = payload.length;
	record->local_port = local_port;
	read_process_name(record->comm);
	read_datagram_addresses(record, sk);
	if (!record->remote_port && direction == SENT)
		read_destination(record, registers, message);
	record->missed_datagrams = datagrams_missed;
	if (emit(record, sizeof(*record) + total))
		__sync_fetch_and_add(&datagrams_missed, 1);
	return 0;
}

#endif
