/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Requests end lazily: by the next one, by the end of the connection, or here. User space runs this program before it reads the table. */
#ifndef CORAL_REQUESTS_SWEEP_H
#define CORAL_REQUESTS_SWEEP_H

#include "requests/dispatch.h"

struct sweep {
	/* Answered requests whose last byte is older are counted. */
	u64 responded_before_ns;
	u32 finished;
	u32 connections;
};

static long sweep_connection(void *map, u64 *key, struct connection *connection, struct sweep *sweep)
{
	(void)map;
	(void)key;
	if (connection->sk <= 1)
		return 0;
	sweep->connections++;
	tls_note_opaque(connection);
	if (connection->state == STATE_RESPONDING && connection->end_ns < sweep->responded_before_ns) {
		/* Copied before it is taken: afterwards the connection may begin its next request. */
		struct connection copy = *connection;

		if (__sync_val_compare_and_swap(&connection->state, STATE_RESPONDING, STATE_IDLE) == STATE_RESPONDING) {
			count_request(&copy);
			sweep->finished++;
		}
	}
	return 0;
}

SEC("syscall")
int sweep_requests(struct sweep *sweep)
{
	struct sweep copy = *sweep;

	bpf_for_each_map_elem(&connection_slots, sweep_connection, &copy, 0);
	if (has_overflowed)
		bpf_for_each_map_elem(&connections, sweep_connection, &copy, 0);
	*sweep = copy;
	return 0;
}

static long forget_connection(void *map, u32 *key, struct connection *connection, void *context)
{
	(void)map;
	(void)key;
	(void)context;
	if (connection->sk > 1)
		connection->sk = 0;
	return 0;
}

/* Run when hooks have been attached. User space empties the other table itself. */
SEC("syscall")
int forget_connections(void *context)
{
	(void)context;
	bpf_for_each_map_elem(&connection_slots, forget_connection, 0, 0);
	return 0;
}

#endif
