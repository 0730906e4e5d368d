/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Processes that exchange requests which the hooks cannot follow: over unix sockets, and by io_uring. User space reports their services with
  * query results. Part of requests.bpf.c.
 */
#ifndef CORAL_REQUESTS_UNSEEN_H
#define CORAL_REQUESTS_UNSEEN_H

#include "requests/user-buffer.h"

#define AF_UNIX 1

/* unseen_key.reason; unseen-requests.ts repeats them. */
#define UNSEEN_UNIX_SOCKET 1
#define UNSEEN_IO_URING 2

struct unseen_key {
	u32 tgid;
	u32 reason;
};

/* Payloads seen, by process and reason. User space empties the map once per window. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 1024);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, struct unseen_key);
	MAP_TYPE(value, u64);
} unseen_requests SEC(".maps");

subprogram int note_unseen(u32 tgid, u32 reason)
{
	struct unseen_key key = { .tgid = tgid, .reason = reason };
	u64 first = 1, *count;

	if (!tgid || bpf_map_lookup_elem(&own_processes, &tgid))
		return 0;
	count = bpf_map_lookup_elem(&unseen_requests, &key);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&unseen_requests, &key, &first, BPF_NOEXIST);
	return 0;
}

/* True if these 16 bytes start a payload of a protocol that would be followed over TCP. */
static always_inline int starts_known_protocol(const u64 *words, u32 length)
{
	const u8 *bytes = (void *)words;
	u32 word = words[0], big = __builtin_bswap32((u32)(words[0] >> 8));

	switch (word) {
	case 0x20544547: /* GET */
	case 0x54534f50: /* POST */
	case 0x20545550: /* PUT */
	case 0x454c4544: /* DELE */
	case 0x44414548: /* HEAD */
	case 0x43544150: /* PATC */
	case 0x20495250: /* PRI, of HTTP/2 */
	case 0x50545448: /* HTTP */
		return 1;
	}
	/* Redis: *2, CRLF, $ */
	if (bytes[0] == '*' && (u8)(bytes[1] - '1') < 9 && bytes[2] == '\r' && bytes[3] == '\n' && bytes[4] == '$')
		return 1;
	/* PostgreSQL: a Query, or a Parse that other messages follow. */
	if ((bytes[0] == 'Q' && big + 1 == length) || (bytes[0] == 'P' && big >= 8 && big < length && !(bytes[5] & 0x80)))
		return 1;
	/* MySQL: the first packet of a command, a query. */
	return (word & 0xffffff) + 4 == length && !bytes[3] && bytes[4] == 3 && (u8)((bytes[5] | 32) - 'a') < 26;
}

/* Sampling of payloads on unix sockets: one in this many is read, because many programs use them heavily and each read costs. */
#define UNIX_SAMPLE 8

/* A payload on a unix socket. */
subprogram int on_unix_socket(u32 length)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct payload payload = { .length = length };
	struct pt_regs *registers;
	u64 words[2] = {};
	u32 tgid;

	if (length < 16 || bpf_get_prandom_u32() & (UNIX_SAMPLE - 1))
		return 0;
	tgid = current_process_of(task);
	registers = registers_of(task);
	if (is_out_of_scope(tgid) || !SYSCALL_IS_RUNNING(registers))
		return 0;
	find_buffer(&payload, registers);
	if (!payload.buffer || payload.first_bytes < 16 || bpf_probe_read_user(words, 16, (void *)payload.buffer))
		return 0;
	if (starts_known_protocol(words, length))
		note_unseen(tgid, UNSEEN_UNIX_SOCKET);
	return 0;
}

#endif
